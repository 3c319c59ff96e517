//! `cargo bench -p tollgate-bench --bench groups`: criterion's groups of all rows; a regular expression for parts of
//! `theme/operation/contender` runs only those.

use tollgate_bench::{THEMES, harness};

fn main() {
    harness::groups(THEMES.map(|(theme, rows)| (theme, rows())));
}
