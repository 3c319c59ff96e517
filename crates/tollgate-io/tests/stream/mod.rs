//! Streams behind a throttle: what is taken, what is started, what is yielded, and what is given back.

mod bounded;
mod dropped;
mod ended;
mod executor;
mod jobs;
mod order;
mod panicking;
mod refused;
mod sink;
#[path = "../../../../tests/support/mod.rs"]
mod support;
mod throttles;
mod ticks;
mod wakeups;
