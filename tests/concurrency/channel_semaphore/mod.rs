//! What a semaphore of a channel promises, a sentence a test.
//!
//! What it has in common with every throttle is in `conformance.rs`.

mod close;
mod permits;
mod waits;
mod wakers;

use tollgate::ChannelSemaphore;

/// Everything has come back, nobody waits, and the whole limit can be had.
#[track_caller]
fn assert_at_rest(semaphore: &ChannelSemaphore, permits: usize) {
    assert_eq!(semaphore.permits(), permits);
    assert_eq!(semaphore.available_permits(), permits);
    let all: Vec<_> = (0..permits)
        .map(|_| semaphore.try_acquire().unwrap())
        .collect();
    assert!(semaphore.try_acquire().is_err());
    drop(all);
    assert_eq!(semaphore.available_permits(), permits);
}
