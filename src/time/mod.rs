//! The only place that reads a clock or owns a timer.

mod alarm;
mod alarm_sleep;
mod clock;
#[cfg(feature = "tokio")]
mod either_sleep;
mod tick;

#[cfg(not(feature = "tokio"))]
pub(crate) use self::alarm_sleep::AlarmSleep as Sleep;
pub(crate) use self::clock::Clock;
#[cfg(feature = "tokio")]
pub(crate) use self::either_sleep::Sleep;
pub(crate) use self::tick::Tick;
