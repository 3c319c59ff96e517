//! Builds the playground: `cargo run -p playground-build [FILE]`, by default into
//! `docs/playground/index.html`. With `--check`, first checks that this one has the present sources.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments: Vec<_> = env::args_os().skip(1).collect();
    let check = arguments.first().is_some_and(|first| first == "--check");
    let rest = arguments.split_off(check.into());
    let built = match rest.as_slice() {
        [] => Ok(playground_build::kept()),
        [file] => Ok(PathBuf::from(file)),
        _ => Err("usage: playground-build [--check] [FILE]".to_owned()),
    };
    let built = built.and_then(|file| {
        if check {
            playground_build::check_sources(&playground_build::kept())?;
        }
        playground_build::build(&file).map(|()| file)
    });
    match built {
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
