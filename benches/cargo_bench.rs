//! What `cargo bench` runs: the groups of the package `tollgate-bench`.
//!
//! The peers are dependencies of that package alone. If `tollgate` depended on them for its tests, every first `cargo
//! test` would have to build them, for minutes. Options of cargo, such as `--profile`, do not reach them from here: use
//! `cargo bench -p tollgate-bench --bench groups`.

use std::env;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let (marks, rest): (Vec<_>, Vec<_>) = env::args_os().skip(1).partition(|it| it == "--bench");
    if marks.is_empty() {
        // Run as a test, and the package has its own.
        return ExitCode::SUCCESS;
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut groups = Command::new(cargo);
    groups.args([
        "bench",
        "--locked",
        "--package=tollgate-bench",
        "--bench=groups",
        "--",
    ]);
    let status = groups.args(rest).status().expect("cargo can be started");
    ExitCode::from(u8::from(!status.success()))
}
