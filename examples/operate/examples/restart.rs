//! A program that is started again keeps its limit. For commands that may run at the same time, use `tollgate-file`.

use std::time::SystemTime;
use std::{error::Error, fs, path::Path};
use tollgate::rate::LimiterState;
use tollgate::{Quota, RateLimiter};

/// Returns how many of ten calls are admitted, in a process of its own.
fn start(file: &Path) -> Result<usize, Box<dyn Error>> {
    let mut limiter = RateLimiter::new(Quota::per_hour(30).burst(30));
    if file.try_exists()? {
        let (state, read): (LimiterState, SystemTime) = serde_json::from_slice(&fs::read(file)?)?;
        // A clock that was set back counts as no time.
        limiter = limiter.restore(&state, read.elapsed().unwrap_or_default())?;
    }
    let calls = (0..10).filter(|_| limiter.try_acquire().is_ok()).count();
    let state = (limiter.state(), SystemTime::now());
    // A crash leaves the old file or the new one.
    let new = file.with_extension("new");
    fs::write(&new, serde_json::to_string(&state)?)?;
    fs::rename(new, file)?;
    Ok(calls)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("limit.json");
    let starts = (0..15).map(|_| start(&file)).sum::<Result<usize, _>>()?;
    println!("{starts} of 150 calls in 15 starts");
    Ok(())
}
