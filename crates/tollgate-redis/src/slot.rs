//! The slot of a key in a cluster, by the specification of Redis clusters.

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// Returns the part of a key in braces, which decides its slot if there is one.
pub(crate) fn tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

pub(crate) fn slot(key: &str) -> u16 {
    checksum(tag(key).unwrap_or(key).as_bytes()) % SLOTS
}

/// Computes CRC-16/XMODEM.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| {
            if sum & 0x8000 == 0 {
                sum << 1
            } else {
                (sum << 1) ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_of_each_key_is_that_of_the_specification() {
        assert_eq!(checksum(b"123456789"), 0x31c3);
        for key in ["foo", "{foo}:bar", "x{foo}{bar}"] {
            assert_eq!(slot(key), 12_182, "{key}");
        }
        for key in ["{}foo", "foo{", "{foo"] {
            assert_ne!(slot(key), 12_182, "{key}");
        }
        assert_eq!(tag("foo{{bar}}zap"), Some("{bar"));
        assert_eq!(tag("foo{}{bar}"), None);
    }
}
