//! Eight processes share one rate, in a file. The program starts itself eight times.

use std::error::Error;
use std::time::{Duration, Instant};
use std::{env, process::Command};

use tollgate::Quota;
use tollgate_file::FileLimiter;

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(path) = env::var_os("RATE") {
        let calls = FileLimiter::open(path, Quota::per_second(100))?;
        for _ in 0..5 {
            calls.acquire().wait()?;
            // The call.
        }
        return Ok(());
    }
    let (folder, begun) = (tempfile::tempdir()?, Instant::now());
    let mut program = Command::new(env::current_exe()?);
    let program = program.env("RATE", folder.path().join("api"));
    let processes: Vec<_> = (0..8).map(|_| program.spawn()).collect();
    for process in processes {
        assert!(process?.wait()?.success());
    }
    // The first call is made at once, and each of the others 10 ms later at the earliest.
    assert!(begun.elapsed() >= Duration::from_millis(39 * 10));
    println!("40 calls in {} ms", begun.elapsed().as_millis());
    Ok(())
}
