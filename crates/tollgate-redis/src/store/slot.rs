//! The slot of a key in a cluster, as the specification of Redis Cluster has it: CRC16 (XMODEM) of
//! the key, or of what is in its first braces if that is anything, modulo 16384.

pub(super) fn slot(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map_or("", |(tag, _)| tag);
    let hashed = if tag.is_empty() { key } else { tag };
    let crc = hashed.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let carry = crc & 0x8000 != 0;
            (crc << 1) ^ if carry { 0x1021 } else { 0 }
        })
    });
    crc % 16_384
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `CLUSTER KEYSLOT` says.
    #[test]
    fn slots_are_as_the_server_has_them() {
        assert_eq!(slot("123456789"), 0x31C3);
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("{foo}:bar"), 12_182);
        assert_eq!(slot("x{foo}{bar}"), 12_182);
        assert_ne!(slot("{}foo"), 12_182);
        assert_ne!(slot("foo{"), 12_182);
    }
}
