//! How many bytes per second, as it is written on the command line.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use serde::{Serialize, Serializer};
use tollgate::Quota;

/// So many bytes per second: a size, such as `20MB`, `512KiB` or `1.5MB`, or a number of bits, such
/// as `100Mbit`, and then `/s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    text: String,
    quota: Quota,
}

/// Why a text is no bandwidth.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BandwidthError {
    /// It is not written as one.
    Unreadable,
    /// A small `b`, which may stand for a bit or for a byte.
    Ambiguous,
    /// Nothing, or less than one byte.
    Zero,
    /// More than 16 gigabytes per second, which a [`Quota`] cannot have.
    TooLarge,
}

impl Bandwidth {
    /// As many bytes as that. A tenth of a second's worth may go at once.
    pub fn quota(&self) -> Quota {
        self.quota
    }
}

impl FromStr for Bandwidth {
    type Err = BandwidthError;

    fn from_str(text: &str) -> Result<Bandwidth, BandwidthError> {
        let size = text.strip_suffix("/s").ok_or(BandwidthError::Unreadable)?;
        let read = |size: &str| match size.trim().parse() {
            Ok(ByteSize(number)) => Ok(number),
            Err(_) => Err(BandwidthError::Unreadable),
        };
        let bytes = match size.strip_suffix("bit") {
            Some(bits) => read(&format!("{bits}B"))? / 8,
            None if size.ends_with('b') => return Err(BandwidthError::Ambiguous),
            // A bare number might be of any unit.
            None if !size.ends_with('B') => return Err(BandwidthError::Unreadable),
            None => read(size)?,
        };
        match bytes {
            0 => Err(BandwidthError::Zero),
            1..=16_000_000_000 => Ok(Bandwidth {
                text: text.to_owned(),
                quota: Quota::per_second(bytes).burst(bytes.div_ceil(10)),
            }),
            _ => Err(BandwidthError::TooLarge),
        }
    }
}

/// As it was written.
impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Serialize for Bandwidth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl fmt::Display for BandwidthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BandwidthError::Unreadable => {
                "expected bytes or bits per second, such as 20MB/s, 512KiB/s or 100Mbit/s"
            }
            BandwidthError::Ambiguous => "write B for bytes and bit for bits",
            BandwidthError::Zero => "nothing could ever be uploaded; it has to be at least 1B/s",
            BandwidthError::TooLarge => "it can be at most 16GB/s",
        })
    }
}

impl std::error::Error for BandwidthError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<u64, BandwidthError> {
        let bandwidth: Bandwidth = text.parse()?;
        assert_eq!(bandwidth.to_string(), text);
        Ok(bandwidth.quota().count())
    }

    #[test]
    fn units_are_decimal_binary_or_bits() {
        assert_eq!(bytes("20MB/s"), Ok(20_000_000));
        assert_eq!(bytes("512KiB/s"), Ok(512 * 1024));
        assert_eq!(bytes("1.5 kB/s"), Ok(1_500));
        assert_eq!(bytes("100Mbit/s"), Ok(12_500_000));
        assert_eq!(bytes("64 Kibit/s"), Ok(8 * 1024));
        assert_eq!(bytes("1.25GB/s"), Ok(1_250_000_000));
        assert_eq!(bytes("16GB/s"), Ok(16_000_000_000));
        assert_eq!(bytes("1B/s"), Ok(1));
    }

    #[test]
    fn a_tenth_of_a_second_may_go_at_once() {
        let bandwidth: Bandwidth = "20MB/s".parse().unwrap();
        assert_eq!(bandwidth.quota().max_burst(), 2_000_000);
        let bandwidth: Bandwidth = "1B/s".parse().unwrap();
        assert_eq!(bandwidth.quota().max_burst(), 1);
    }

    #[test]
    fn what_could_mean_something_else_is_refused() {
        for text in [
            "", "/s", "20", "20MB", "20/s", "20M/s", "MB/s", "-1MB/s", "20MB/min", "1,5MB/s",
            "20QB/s", "bit/s", ".B/s", "20bitB/s", "20Bbit/s",
        ] {
            assert_eq!(bytes(text), Err(BandwidthError::Unreadable), "{text:?}");
        }
        assert_eq!(bytes("20Mb/s"), Err(BandwidthError::Ambiguous));
        assert_eq!(bytes("0MB/s"), Err(BandwidthError::Zero));
        assert_eq!(bytes("7bit/s"), Err(BandwidthError::Zero));
        assert_eq!(bytes("16.1GB/s"), Err(BandwidthError::TooLarge));
        assert_eq!(bytes("99999999999EB/s"), Err(BandwidthError::TooLarge));
    }
}
