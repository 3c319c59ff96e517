//! Concurrency: the promises of semaphores and pools, in models and on threads.

mod condvar_semaphore;
#[path = "../support/fixed.rs"]
mod fixed;
mod foreign_semaphores;
mod model;
#[cfg(feature = "channel")]
mod pool;
mod release_after;
mod semaphore;
#[path = "../support/mod.rs"]
mod support;
mod threads;
mod timeout;
