//! The only place that reads a clock or owns a timer.

mod alarm;
mod clock;
mod clock_sleep;
mod manual;
mod oversleep;
mod queue;
#[cfg(feature = "tokio")]
mod runtime;
#[cfg(not(feature = "tokio"))]
#[path = "no_runtime.rs"]
mod runtime;
#[cfg(feature = "tokio")]
mod sleep;
#[cfg(not(feature = "tokio"))]
#[path = "sleep_without_runtime.rs"]
mod sleep;
#[cfg(feature = "tsc")]
mod system;
#[cfg(not(feature = "tsc"))]
#[path = "system_without_tsc.rs"]
mod system;
mod tick;
mod timer;

pub(crate) use self::alarm::Alarm;
pub use self::clock::Clock;
pub(crate) use self::clock::Counter;
pub use self::manual::ManualClock;
pub(crate) use self::runtime::SeenRuntime;
pub(crate) use self::sleep::Sleep;
pub use self::tick::Tick;
