//! What throttles hold, and how often they allocate.
//!
//! Counted for the whole process, so the tests here run one after another: each holds
//! [`ONE_AT_A_TIME`].

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

mod allocations;
mod keyed_memory;
#[path = "../support/mod.rs"]
mod support;
mod waits_memory;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How many bytes more are held than when the region began. Less, perhaps: a test that has just ended
/// gives back what it held.
fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change
        .bytes_allocated
        .saturating_sub(change.bytes_deallocated)
}

/// Keeps what one test holds from being counted by another.
fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
