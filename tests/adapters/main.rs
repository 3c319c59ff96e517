//! Throttles made of throttles, and where people meet them: `all`, costs, gates, streams, tower.

mod all;
mod budget;
mod fair;
mod gate;
#[cfg(feature = "io")]
mod io;
mod observe;
#[cfg(feature = "stream")]
mod stream;
#[path = "../support/mod.rs"]
mod support;
mod throttle;
#[cfg(feature = "tower")]
mod tower;
