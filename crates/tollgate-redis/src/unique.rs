//! [`unique`]: the numbers by which a server distinguishes processes.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Returns a number that no other call returns, in this process or another one. Random numbers alone are not enough:
/// processes that are forked from one continue the same sequence, and two processes with one name share a lease.
pub(crate) fn unique() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
