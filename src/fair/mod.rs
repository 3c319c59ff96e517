//! [`FairQueue`]: priorities and fair shares in front of any throttle.
//!
//! The queues of this crate are first-in first-out. Under overload, the first waiter is not always
//! the one that matters: one tenant sends ten times as many requests as another, a batch job delays
//! a person, a large transfer delays a small one. A `FairQueue` holds all waiters, and when a
//! permit is available it decides who gets it.

use std::hash::Hash;

use crate::Throttle;

mod acquire;
mod class;
mod class_handle;
mod driver;
mod entry;
mod queue;
mod schedule;
mod tournament;

pub use self::acquire::FairPermit;
pub use self::class::{Class, ClassSnapshot, Share};
pub use self::class_handle::ClassHandle;
pub use self::queue::FairQueue;

/// A throttle that can be behind a [`FairQueue`]: one that tasks and threads can own.
///
/// Every such [`Throttle`] is one; callers need not name this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be owned by a `FairQueue`",
    note = "the throttle must be `'static`, `Send` and `Sync`, for example an `Arc` of a semaphore"
)]
pub trait Queueable: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static {}

impl<T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static> Queueable for T {}

/// A key of a class of a [`FairQueue`].
///
/// Every type with these bounds is one; callers need not name this trait.
pub trait ClassKey: Hash + Eq + Send + Sync + 'static {}

impl<K: Hash + Eq + Send + Sync + 'static> ClassKey for K {}
