//! Two hundred files to upload: an empty one, three of 64 MiB and small ones of many sizes.
//!
//! The content is pseudo-random, and the same on every run.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// How many files there are.
pub const FILES: usize = 200;
/// How many of them are large.
pub const LARGE: usize = 3;
/// The length in bytes of a large one.
pub const LARGE_BYTES: u64 = 64 * 1024 * 1024;

/// Writes the files into `directory`, which is created if need be.
///
/// # Errors
///
/// When one cannot be written.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for index in 0..FILES {
        let mut random = SplitMix64(index as u64);
        let (name, len) = match index {
            0 => ("empty".to_owned(), 0),
            1..=LARGE => (format!("large-{index}"), LARGE_BYTES),
            _ => (format!("small-{index:03}"), 1 + random.next() % 65_536),
        };
        let mut file = BufWriter::new(File::create(directory.join(name))?);
        for _ in 0..len / 8 {
            file.write_all(&random.next().to_le_bytes())?;
        }
        // At most seven bytes are left over.
        file.write_all(&random.next().to_le_bytes()[..(len % 8) as usize])?;
        file.flush()?;
    }
    Ok(())
}

/// The generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the generator's reference implementation, seeded with 1234567.
    #[test]
    fn generator_gives_the_published_numbers() {
        let mut random = SplitMix64(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }
}
