//! The semaphores of others as throttles of this crate.
//!
//! What they have in common with every throttle is in `conformance.rs`. Here is how ours and theirs
//! wait in one line, and what is true of one of them alone.

#[cfg(feature = "async-lock")]
mod async_lock;
#[cfg(feature = "tokio")]
mod tokio;
