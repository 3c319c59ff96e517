use std::path::{Path, PathBuf};

use rayon::prelude::*;
use tollgate::{AcquireError, Semaphore};

/// Stands in for work on the processor, which every thread of rayon may do.
fn decode(file: &Path) -> Vec<u8> {
    file.as_os_str().as_encoded_bytes().to_vec()
}

/// Writes the decoded data of each file; `write` runs on as many threads at once as there are slots.
fn convert_all(
    files: &[PathBuf],
    slots: &Semaphore,
    write: impl Fn(&[u8]) + Sync,
) -> Result<(), AcquireError> {
    files.par_iter().try_for_each(|file| {
        let image = decode(file);
        let _permit = slots.acquire().wait()?; // Blocks this thread of the pool.
        write(&image);
        Ok(())
    })
}

fn main() -> Result<(), AcquireError> {
    let files: Vec<_> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    convert_all(&files, &Semaphore::new(2), |image| {
        println!("{} bytes", image.len());
    })
}
