//! Calls at a steady rate, in whole milliseconds.

/// A rate, and how much of the next call has come.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: u32,
    /// In thousandths of a call.
    part: u32,
}

impl Pace {
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            per_second,
            part: 0,
        }
    }

    pub(crate) fn set(&mut self, per_second: u32) {
        self.per_second = per_second;
    }

    /// Returns how many calls come in the next millisecond.
    pub(crate) fn due(&mut self) -> u32 {
        self.part += self.per_second;
        let calls = self.part / 1000;
        self.part %= 1000;
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_any_second_has_the_whole_rate() {
        for per_second in [0, 1, 60, 999, 1200] {
            let mut pace = Pace::new(per_second);
            let calls: u32 = (0..3000).map(|_| pace.due()).sum();
            assert_eq!(calls, 3 * per_second);
        }
    }
}
