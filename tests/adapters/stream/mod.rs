//! Streams behind a throttle: what is taken, what is started, what is yielded, and what is given back.

#[cfg(feature = "tokio")]
mod bounded;
mod dropped;
#[cfg(feature = "tokio")]
mod ended;
mod executor;
mod jobs;
mod order;
mod panicking;
mod refused;
mod sink;
mod throttles;
mod ticks;
mod wakeups;
