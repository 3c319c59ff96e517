//! The traits that adapters need in addition to [`Throttle`], and the types that are made of throttles: several
//! of them [at once](All), one behind a [gate](Gated), one with a [cost](Cost), and one of an [erased
//! type](BoxThrottle).

mod adapters;
pub(crate) mod all;
mod boxed;
mod cost;
mod enter_all;
mod gated;
mod handles;
mod optional;
mod per_call;
mod rollback_guard;
pub(crate) mod traits;

pub use self::adapters::{Adaptive, Inspect, Weighted};
pub use self::all::{All, WeightedAll};
pub use self::boxed::{BoxPermit, BoxThrottle};
pub use self::cost::Cost;
pub use self::gated::Gated;
pub(crate) use self::handles::handles;
pub use self::per_call::{PerCall, per_call};
pub use self::rollback_guard::RollbackGuard;
pub use self::traits::Polling;
pub(crate) use self::traits::{Throttle, TryThrottle};
pub use crate::feedback::Feedback;
pub use crate::status::LimitStatus;
