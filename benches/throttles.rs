//! `cargo bench -p tollgate-bench --bench throttles`: criterion's groups of the other throttles, the channels that they
//! stand on, and what is made of throttles.

use tollgate_bench::{harness, throttles};

fn main() {
    let rows = [
        throttles::ready(),
        throttles::composed(),
        throttles::waiters(),
    ];
    harness::groups("throttles", rows.into_iter().flatten());
}
