//! The memory of throttles, and the number of their allocations.
//!
//! The counts cover the whole process, so the tests here run one after another: each holds
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

/// Returns the growth of the memory since the region began. It may be negative: a test that has just
/// ended releases its memory.
fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change
        .bytes_allocated
        .saturating_sub(change.bytes_deallocated)
}

/// Keeps one test's memory from being counted by another.
fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
