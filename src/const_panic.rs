//! A panic that carries a number, for constructors that are `const fn`, where formatting is not to
//! be had.

/// Panics with `before`, the number in decimal, and `after`.
#[track_caller]
pub(crate) const fn panic_with(before: &str, number: usize, after: &str) -> ! {
    let mut text = [0; 160];
    let mut len = copy(&mut text, 0, before.as_bytes());
    let mut divisor = 1;
    while number / divisor >= 10 {
        divisor *= 10;
    }
    while divisor > 0 {
        len = copy(&mut text, len, &[b'0' + (number / divisor % 10) as u8]);
        divisor /= 10;
    }
    len = copy(&mut text, len, after.as_bytes());
    match std::str::from_utf8(text.split_at(len).0) {
        Ok(text) => panic!("{}", text),
        Err(_) => panic!("{}", before),
    }
}

/// Copies as much as fits, and says where the text ends then.
const fn copy(to: &mut [u8], mut at: usize, from: &[u8]) -> usize {
    let mut next = 0;
    while next < from.len() && at < to.len() {
        to[at] = from[next];
        at += 1;
        next += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::panic_with;

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
}
