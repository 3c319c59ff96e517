//! Random values of header fields, for tests.

/// So many cases as the environment variable `HEADER_CASES` says, as in `scripts/nightly`.
pub(crate) fn cases() -> u64 {
    let cases = std::env::var("HEADER_CASES");
    cases.map_or(20_000, |cases| cases.parse().expect("a number"))
}

/// Returns random numbers below a bound, from a fixed seed.
pub(crate) fn numbers() -> impl FnMut(usize) -> usize {
    let mut state = 7_u64;
    move |bound| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).expect("31 bits") % bound
    }
}

/// Returns a value of fewer than `parts` parts: words that such values have, or any byte.
pub(crate) fn value(
    next: &mut impl FnMut(usize) -> usize,
    words: &[&str],
    parts: usize,
) -> Vec<u8> {
    let mut value = Vec::new();
    for _ in 0..next(parts) {
        if next(8) > 0 {
            value.extend(words[next(words.len())].bytes());
        } else {
            // No control characters, which are no part of a value.
            let byte = u8::try_from(next(256)).expect("a byte");
            value.push(if byte < b' ' || byte == 0x7f {
                b'7'
            } else {
                byte
            });
        }
    }
    value
}
