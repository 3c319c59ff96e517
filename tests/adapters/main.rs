//! Throttles made of throttles, and where people meet them: `all`, costs, gates, streams, tower.

mod all;
mod fair;
mod gate;
#[path = "../support/mod.rs"]
mod support;
mod throttle;
