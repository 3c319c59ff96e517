//! `cargo bench -p tollgate-bench --bench rates`: criterion's groups of the rate limiters.

use tollgate_bench::{harness, rates};

fn main() {
    let rows = [rates::decisions(), rates::rules(), rates::local()];
    harness::groups("rate", rows.into_iter().flatten());
}
