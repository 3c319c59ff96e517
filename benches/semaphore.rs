//! `cargo bench -p tollgate-bench --bench semaphore`: criterion's groups of the semaphores.

use tollgate_bench::{harness, semaphore};

fn main() {
    let rows = [semaphore::ready(), semaphore::waiters()];
    harness::groups("semaphore", rows.into_iter().flatten());
}
