//! Runs the repository's own tasks, by hand and in CI, in addition to those of cargo.

mod benchmarks;
mod docs_rs;
mod examples;
mod links;
mod migration;
mod package;
mod public_items;
mod release;
mod size;
mod tree;
mod uses;
mod walk;
mod workspace;

use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Parser;
use xshell::{Shell, cmd};

/// A task. Each task succeeds, misses a budget or finds a mistake, or cannot be executed.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = None)]
enum Task {
    /// Print figures of the structure of the library, each next to its bound, and of its size
    Size(size::Options),
    /// Check the number of crates that users get, the compilers that these need, and that no public item is hidden
    Tree,
    /// Build each public crate from its tarball, and its documentation as docs.rs does
    Package {
        /// Take files that are not committed
        #[arg(long)]
        allow_dirty: bool,
    },
    /// Build the documentation of the public crates as docs.rs does, and check that no link leads nowhere
    Links,
    /// Check that each page of `src/migrate` names every public item of the crate that it is about
    Migration,
    /// Run the short examples, and check their output
    Examples,
    /// Check everything that a release needs, and print the necessary changes or how to publish it
    Release(release::Options),
    /// Print the number of files and functions that one operation passes through, next to budgets and peers
    Walk(walk::Options),
    /// Measure the table of BENCHMARKS.md, and print it with the rows that changed by more than their noise
    Benchmarks(benchmarks::Options),
    /// Count the instructions of each ready path; --check exits with 1 above the counts of the file, and with 3 where
    /// that file is not comparable; --write renews it
    Instructions {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Draw the pictures of docs/ again; those of the demonstration are described in its README
    Pictures,
}

fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    let shell = workspace::shell()?;
    let passed = match task {
        Task::Instructions { arguments } => return instructions(&shell, &arguments),
        Task::Size(options) => size::size(&shell, &options),
        Task::Tree => tree::tree(&shell),
        Task::Package { allow_dirty } => package::package(&shell, allow_dirty),
        Task::Links => links::links(&shell),
        Task::Migration => migration::migration(&shell),
        Task::Examples => examples::examples(&shell),
        Task::Release(options) => release::release(&shell, &options),
        Task::Walk(options) => walk::walk(&shell, &options),
        Task::Benchmarks(options) => benchmarks::benchmarks(&shell, &options),
        Task::Pictures => pictures(&shell),
    }?;
    Ok(ExitCode::from(u8::from(!passed)))
}

/// Runs the program that counts, and returns its exit code.
fn instructions(shell: &Shell, arguments: &[String]) -> Result<ExitCode> {
    let build = "build --quiet --locked --release --package=ready-paths".split(' ');
    workspace::run(cmd!(shell, "cargo {build...}"))?;
    let target = workspace::members(shell)?.target_directory;
    let status = Command::new(target.join("release/ready-paths"))
        .args(arguments)
        .status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Draws the pictures. `pacing.svg` is measured, and all others are computed.
fn pictures(shell: &Shell) -> Result<bool> {
    let [peers, simulations] =
        ["peers", "simulations"].map(|name| ["--locked", "--release", "-p", name, "--bin"]);
    cmd!(shell, "cargo run {peers...} compare -- --csv").run()?;
    cmd!(shell, "cargo run {simulations...} queueing -- --svg docs").run()?;
    Ok(true)
}
