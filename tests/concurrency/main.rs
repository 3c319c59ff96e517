//! How many at once: semaphores and pools, what they promise and what holds them to it on threads.

mod adaptive_semaphore;
mod condvar_semaphore;
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
