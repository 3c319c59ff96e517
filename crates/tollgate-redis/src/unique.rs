//! [`unique`]: the numbers by which a server distinguishes processes.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::SystemTime;

/// Returns a number that no other call is expected to return, in this process or another one: a hash of a random
/// state, the id of the process and the time. Random numbers alone are not enough: processes that are forked from one
/// continue the same sequence, and two processes with one name share a lease. Ids alone are not enough for them either:
/// copies of one process in several containers may have the same id.
pub(crate) fn unique() -> u64 {
    RandomState::new().hash_one((std::process::id(), SystemTime::now()))
}
