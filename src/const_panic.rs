//! A panic with numbers in its message, for constructors that are `const fn`, where formatting is
//! not available.

/// Panics with `before`, the number in decimal, and `after`.
#[track_caller]
pub(crate) const fn panic_with(before: &str, number: usize, after: &str) -> ! {
    let text = Text::new(before).number(number as u128).and(after);
    text.panic()
}

/// An ASCII text that is built piece by piece, without an allocation. What does not fit is cut off.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    bytes: [u8; 192],
    len: usize,
}

impl Text {
    pub(crate) const fn new(text: &str) -> Self {
        let empty = Self {
            bytes: [0; 192],
            len: 0,
        };
        empty.and(text)
    }

    /// Appends a text.
    pub(crate) const fn and(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Appends a number in decimal.
    pub(crate) const fn number(mut self, number: u128) -> Self {
        let mut divisor = 1;
        while number / divisor >= 10 {
            divisor *= 10;
        }
        while divisor > 0 {
            self = self.bytes(&[b'0' + (number / divisor % 10) as u8]);
            divisor /= 10;
        }
        self
    }

    const fn bytes(mut self, from: &[u8]) -> Self {
        let mut next = 0;
        while next < from.len() && self.len < self.bytes.len() {
            self.bytes[self.len] = from[next];
            self.len += 1;
            next += 1;
        }
        self
    }

    pub(crate) const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            // ASCII is always valid UTF-8, and nothing else is written here.
            Err(_) => "",
        }
    }

    /// Panics with the text as its message.
    #[track_caller]
    pub(crate) const fn panic(&self) -> ! {
        panic!("{}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{Text, panic_with};

    #[test]
    #[should_panic(expected = "between 18446744073709551615 and more")]
    #[cfg(target_pointer_width = "64")]
    fn the_largest_number_is_written_out() {
        panic_with("between ", usize::MAX, " and more");
    }

    #[test]
    #[should_panic(expected = "exactly 0.")]
    fn zero_is_a_digit() {
        panic_with("exactly ", 0, ".");
    }

    #[test]
    fn several_numbers_are_in_one_text() {
        let text = Text::new("").number(10).and(" of ").number(u128::MAX);
        assert_eq!(text.as_str(), format!("10 of {}", u128::MAX));
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let text = Text::new(&"x".repeat(190)).number(12345).and("more");
        assert_eq!(text.as_str(), "x".repeat(190) + "12");
    }
}
