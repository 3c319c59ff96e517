//! Limits that find themselves: from the latency of calls, or from the refusals of a server.

mod controller;
mod feedback;
mod rate;
mod sampler;
mod semaphore;

pub use self::controller::{
    Aimd, Controller, EnvoyGradient, Gradient, Gradient2, SampleWindow, Target, Vegas,
};
pub use self::feedback::Feedback;
pub use self::rate::{AcquireRate, AdaptiveRate, RatePermit, RateSnapshot};
pub use self::semaphore::{Acquire, AdaptivePermit, AdaptiveSemaphore, AdaptiveSnapshot};
