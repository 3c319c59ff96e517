//! The calls that every algorithm gets, the same for all: when each comes.

use std::time::Duration;

/// How long it lasts.
pub(crate) const SPAN: Duration = Duration::from_secs(9);

/// Some calls, evenly spaced. In milliseconds.
struct Stretch {
    from: u64,
    every: u64,
    count: u64,
}

const STRETCHES: [Stretch; 5] = [
    // A crowd at the end of a second, and another at the beginning of the next.
    Stretch {
        from: 952,
        every: 4,
        count: 12,
    },
    Stretch {
        from: 1000,
        every: 4,
        count: 12,
    },
    // For two seconds five times as many as the quota has, from the middle of a second on.
    Stretch {
        from: 3500,
        every: 20,
        count: 105,
    },
    // Nobody for a long time, and then forty at once.
    Stretch {
        from: 7300,
        every: 0,
        count: 40,
    },
    // As many as the quota has.
    Stretch {
        from: 8000,
        every: 100,
        count: 10,
    },
];

/// When each call comes, in order, since the epoch of the clock, where windows begin.
pub(crate) fn arrivals() -> Vec<Duration> {
    let of = |stretch: &Stretch| {
        let (from, every) = (stretch.from, stretch.every);
        (0..stretch.count).map(move |number| Duration::from_millis(from + number * every))
    };
    STRETCHES.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_in_order_and_in_time() {
        let arrivals = arrivals();
        assert!(arrivals.is_sorted());
        assert!(arrivals.last() < Some(&SPAN));
    }
}
