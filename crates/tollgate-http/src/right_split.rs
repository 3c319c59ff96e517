//! Splits field values outside quoted strings, from the right to the left.
//!
//! The closing quote identifies a quoted string. So text that a client wrote further to the left, such as an
//! open quote, does not change how the elements that proxies appended are read. In a
//! well-formed value the direction makes no difference.

use crate::work;

/// Splits a field value at a separator outside quoted strings, from the right to the left.
///
/// It yields at least one element; elements may be empty.
pub(crate) struct RightSplit<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> RightSplit<'a> {
    pub(crate) fn new(value: &'a [u8], separator: u8) -> Self {
        let rest = Some(value);
        Self { rest, separator }
    }
}

impl<'a> Iterator for RightSplit<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        let next = self.split(rest);
        work::add(next.len() + 1);
        Some(next)
    }
}

impl<'a> RightSplit<'a> {
    fn split(&mut self, rest: &'a [u8]) -> &'a [u8] {
        let mut quoted = false;
        for (at, byte) in rest.iter().enumerate().rev() {
            if *byte == b'"' {
                // Within a string, a quote after an odd number of backslashes belongs to the text.
                let escaped = |text: &[u8]| {
                    let backslashes = text.iter().rev().take_while(|byte| **byte == b'\\');
                    backslashes.count() % 2 == 1
                };
                quoted = !quoted || escaped(&rest[..at]);
            } else if *byte == self.separator && !quoted {
                self.rest = Some(&rest[..at]);
                return &rest[at + 1..];
            }
        }
        rest
    }
}
