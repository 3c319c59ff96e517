//! Splitting of field values, outside of quoted strings and from the right to the left.
//!
//! A quoted string is known by its closing quote. So what a client wrote further to the left, an
//! open quote for example, does not change how the elements are read that proxies appended. In a
//! well-formed value the direction makes no difference.

/// Splits a field value at a separator outside of quoted strings, from the right to the left.
///
/// It yields at least one element; elements may be empty.
pub(super) struct RightSplit<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> RightSplit<'a> {
    pub(super) fn new(value: &'a [u8], separator: u8) -> Self {
        let rest = Some(value);
        Self { rest, separator }
    }
}

impl<'a> Iterator for RightSplit<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        let mut quoted = false;
        for (at, byte) in rest.iter().enumerate().rev() {
            if *byte == b'"' {
                // Within a string a quote after an odd number of backslashes belongs to the text.
                let escaped = |text: &[u8]| {
                    let backslashes = text.iter().rev().take_while(|byte| **byte == b'\\');
                    backslashes.count() % 2 == 1
                };
                quoted = !quoted || escaped(&rest[..at]);
            } else if *byte == self.separator && !quoted {
                self.rest = Some(&rest[..at]);
                return Some(&rest[at + 1..]);
            }
        }
        Some(rest)
    }
}
