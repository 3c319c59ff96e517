//! Builds the playground: `cargo run -p playground-build [FILE]`, by default into
//! `docs/playground/index.html`. With `--check`, it first checks that this file has the current sources; with
//! `--check-only`, it builds nothing.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use playground_build::{build, check_sources, kept};

fn main() -> ExitCode {
    let mut arguments: Vec<_> = env::args_os().skip(1).collect();
    let option = arguments.first().and_then(|first| first.to_str());
    let (checks, builds) = match option {
        Some("--check") => (true, true),
        Some("--check-only") => (true, false),
        _ => (false, true),
    };
    let rest = arguments.split_off(checks.into());
    let file = match rest.as_slice() {
        [] => Ok(kept()),
        [file] if builds => Ok(PathBuf::from(file)),
        _ => Err("usage: playground-build [--check] [FILE] or --check-only".to_owned()),
    };
    let done = file.and_then(|file| {
        if checks {
            check_sources(&kept())?;
        }
        if builds {
            build(&file)?;
        }
        Ok(file)
    });
    match done {
        Ok(file) => {
            println!("{}", file.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("playground-build: {error}");
            ExitCode::FAILURE
        }
    }
}
