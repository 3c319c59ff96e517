//! Throttles made of throttles, and adapters for programs: `all`, costs, gates, streams, tower.

mod all;
mod fair;
mod gate;
#[path = "../support/mod.rs"]
mod support;
mod throttle;
