//! In which slot of a cluster a key is, as the specification of Redis clusters has it.

/// How many there are.
pub(crate) const SLOTS: u16 = 16_384;

/// What of a key says in which slot it is, if not all of it.
pub(crate) fn tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

pub(crate) fn slot(key: &str) -> u16 {
    checksum(tag(key).unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM.
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
    fn slots_are_those_of_the_specification() {
        assert_eq!(checksum(b"123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("{foo}:bar"), 12_182);
        assert_eq!(slot("x{foo}{bar}"), 12_182);
        assert_eq!(slot("{user1000}.following"), slot("user1000"));
        assert_ne!(slot("{}foo"), 12_182);
        assert_ne!(slot("foo{"), 12_182);
    }

    #[test]
    fn the_first_braces_that_hold_something_are_the_tag() {
        assert_eq!(tag("user:1"), None);
        assert_eq!(tag("{acme}:user:1"), Some("acme"));
        assert_eq!(tag("foo{}{bar}"), None);
        assert_eq!(tag("foo{{bar}}zap"), Some("{bar"));
        assert_eq!(tag("foo{bar}{zap}"), Some("bar"));
        assert_eq!(tag("a{b"), None);
    }
}
