//! Adaptive limits: of concurrency, from the latency of calls, and of a rate, from the refusals of a
//! server. [The guide](crate::guide::find_the_right_limit) has a program.
//!
//! # How a concurrency limit adapts
//!
//! With `L` calls in flight at `c` workers that each take the time `S`, a call takes `L·S/c` by Little's
//! law, unless `L` is less than `c`: then workers idle. The right limit is a little above `c`, and the
//! only thing that a caller sees of it is how long calls take. A controller compares that with a
//! baseline, the latency without a queue: if calls take as long, the limit grows, and if they take
//! longer, it shrinks.
//!
//! The difficult part is the baseline. A controller that remembers the shortest latency it has ever seen
//! takes it for a queue if the calls themselves become slower, and shrinks without end. One that forgets
//! the baseline slowly takes a queue that lasts for the new normal, and grows without end. [`Gradient`],
//! the default, therefore measures the baseline repeatedly, at half of the limit.

mod controller;
mod rate;
mod sampler;
mod semaphore;
mod throttle;

pub use self::controller::{Aimd, Controller, Gradient, Progress, SampleWindow, Target};
pub use self::rate::{AdaptiveRate, RatePermit, RateSnapshot};
pub use self::sampler::AdaptiveSnapshot;
pub use self::semaphore::{AdaptivePermit, AdaptiveSemaphore};
pub use crate::feedback::Feedback;
