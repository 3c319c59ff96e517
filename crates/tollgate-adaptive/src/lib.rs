//! Adaptive limits: a concurrency limit that adapts to the latency of calls, and a rate limit that
//! adapts to the refusals of a server. [The guide](guide) has a program.
//!
//! Both are throttles of [tollgate](https://docs.rs/tollgate), so its compositions, queues and adapters take them.
//! Code that knows how a call ended reports it through [`Adaptive`](tollgate::throttle::Adaptive), as the layer of
//! `tollgate-tower` and the middleware of `tollgate-reqwest` do with `classify`; other adapters drop the permit.
//!
//! # How a concurrency limit adapts
//!
//! With `L` calls in flight at `c` workers that each take the time `S`, a call takes `L·S/c` by
//! Little's law, unless `L` is less than `c`: then workers idle. The right limit is a little above
//! `c`, but a caller sees only the latency of its calls. A controller compares this latency with a
//! baseline, the latency without a queue: if the two are equal, the limit grows, and if calls take
//! longer, it shrinks.
//!
//! The difficult part is the baseline. Suppose that a controller remembers the shortest latency
//! that it has ever seen. If the calls themselves become slower, it takes that for a queue, and
//! shrinks the limit without end. If it forgets the baseline slowly instead, it takes a lasting
//! queue for the new normal, and grows the limit without end. [`Gradient`], the default, therefore
//! measures the baseline repeatedly, at half of the limit.

#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod controller;
mod debug;
pub mod guide;
mod handles;
mod rate;
mod sampler;
mod semaphore;
mod sync;
mod throttle;

pub use self::controller::{
    Aimd, Controller, Explanation, Gradient, Progress, Reason, SampleWindow, Target,
};
pub use self::handles::Shared;
pub use self::rate::{AdaptiveRate, RatePermit, RateSnapshot};
pub use self::sampler::AdaptiveSnapshot;
pub use self::semaphore::{AdaptivePermit, AdaptiveSemaphore};

/// The message of an option that is set after the first use, which is that of the options of [`tollgate`].
const TOO_LATE: &str = "an option must be set before the first use";
