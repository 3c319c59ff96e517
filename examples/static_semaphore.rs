//! One limit for the whole program, in a `static`: no lazy initialisation, nothing to pass around.

use std::{fs, io};

use tollgate::Semaphore;

/// All reads, wherever in the program: two at once.
static DISK: Semaphore = Semaphore::new(2);

async fn lines(path: &'static str) -> io::Result<usize> {
    let permit = DISK.acquire().await.map_err(io::Error::other)?;
    // The permit goes along, and is held until the thread is done even if nobody waits for it.
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
