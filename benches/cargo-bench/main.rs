//! Runs the groups of the package `tollgate-bench`, for a plain `cargo bench`.
//!
//! As a default member of the workspace, that package would have its peers built by every first `cargo test`, for
//! minutes, and its features would be those of all tests. Options of cargo, such as `--profile`, do not reach it from
//! here: use `cargo bench -p tollgate-bench --bench groups`.

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
    eprintln!("building tollgate-bench and the other crates that it measures, which takes minutes");
    let status = groups.args(rest).status().expect("cargo can be started");
    ExitCode::from(u8::from(!status.success()))
}
