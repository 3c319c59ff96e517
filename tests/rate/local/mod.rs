//! Local handles of a limiter: what they let through, take ahead, and give back.

mod chunks;
mod given_back;
mod others;
mod threads;
mod waits;
