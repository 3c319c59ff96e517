//! Clients of servers that refuse requests, in paused time: whatever the server does, the client keeps its pauses and
//! comes back to its former rate.

mod server;
mod world;
mod worlds;
