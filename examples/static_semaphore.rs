//! One limit for the whole program, in a `static`: it needs no lazy initialisation and is not passed around.

use std::{fs, io};

use tollgate::Semaphore;

/// Limits all reads in the program to two at once.
static DISK: Semaphore = Semaphore::new(2);

async fn lines(path: &'static str) -> io::Result<usize> {
    let permit = DISK.acquire().await.map_err(io::Error::other)?;
    // The permit moves into the thread, which holds it until it is done, even if no caller waits for the thread.
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        Ok(fs::read_to_string(path)?.lines().count())
    })
    .await?
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let (manifest, readme) = tokio::try_join!(lines("Cargo.toml"), lines("README.md"))?;
    println!("{manifest} and {readme} lines");
    Ok(())
}
