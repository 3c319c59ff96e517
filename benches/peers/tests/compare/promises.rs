//! The promise of each algorithm, counted over every window, without any code of the library: 10 a
//! second, in nanoseconds.

pub(crate) const PERIOD: u64 = 1_000_000_000;
const COUNT: u64 = 10;

/// The calls, and the time at which each was admitted, if it was.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) arrivals: Vec<u64>,
    pub(crate) at: Vec<Option<u64>>,
}

impl Calls {
    /// Returns the times of the admitted calls, in order.
    pub(crate) fn admitted(&self) -> Vec<u64> {
        let mut admitted: Vec<_> = self.at.iter().flatten().copied().collect();
        admitted.sort_unstable();
        admitted
    }
}

/// The number of admissions from one to another, both included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) count: u64,
}

/// Counts the admissions from each to each later one.
pub(crate) fn counted(admitted: &[u64]) -> impl Iterator<Item = Counted> {
    (0..admitted.len()).flat_map(move |from| {
        (from..admitted.len()).map(move |to| Counted {
            first: admitted[from],
            last: admitted[to],
            count: (to - from + 1) as u64,
        })
    })
}

/// Checks the promise.
pub(crate) fn check(name: &str, calls: &Calls) -> Result<(), String> {
    let admitted = calls.admitted();
    match name {
        "gcra" => at_once_nothing_waits(calls).and(evenly(&admitted, 1)),
        "gcra burst 10" => at_once_nothing_waits(calls).and(evenly(&admitted, 10)),
        "token-bucket burst 20" => at_once_nothing_waits(calls).and(in_batches(&admitted, 20)),
        "fixed-window" => at_once_nothing_waits(calls)
            .and(in_each(&admitted, PERIOD, COUNT))
            .and(in_any_period(&admitted, 2 * COUNT)),
        "sliding-window" => at_once_nothing_waits(calls)
            .and(by_estimate(&admitted))
            .and(in_any_period(&admitted, 2 * COUNT - 1)),
        "sliding-log" => at_once_nothing_waits(calls).and(in_any_period(&admitted, COUNT)),
        "sub-interval/4" => at_once_nothing_waits(calls)
            .and(in_each(&admitted, PERIOD / 4, 2))
            .and(in_any_period(&admitted, COUNT)),
        "leaky-bucket capacity 10" => one_after_the_other(calls)
            .and(waiting(calls, 10))
            .and(evenly(&admitted, 1)),
        unknown => Err(format!("nothing is known of {unknown}")),
    }
}

fn every(admitted: &[u64], promise: &str, kept: impl Fn(Counted) -> bool) -> Result<(), String> {
    match counted(admitted).find(|counted| !kept(*counted)) {
        None => Ok(()),
        Some(broken) => Err(format!("{promise}: {broken:?}")),
    }
}

/// Each admitted caller is admitted when it comes.
fn at_once_nothing_waits(calls: &Calls) -> Result<(), String> {
    let waited = |(&arrival, at): (&u64, &Option<u64>)| at.is_some_and(|at| at != arrival);
    if calls.arrivals.iter().zip(&calls.at).any(waited) {
        return Err("somebody waited who only tried".to_owned());
    }
    Ok(())
}

/// At most the burst, plus the rate times the interval and a nanosecond.
fn evenly(admitted: &[u64], burst: u64) -> Result<(), String> {
    every(admitted, "burst and rate", |one| {
        let interval = one.last - one.first + 1;
        one.count.saturating_sub(burst) * PERIOD <= COUNT * interval
    })
}

/// At most the capacity of the bucket, and a batch for each second that ends.
fn in_batches(admitted: &[u64], capacity: u64) -> Result<(), String> {
    every(admitted, "bucket and batches", |one| {
        let batches = one.last / PERIOD - one.first / PERIOD;
        one.count <= capacity + COUNT * batches
    })
}

/// At most the count in each window of this length.
fn in_each(admitted: &[u64], window: u64, most: u64) -> Result<(), String> {
    every(admitted, "in each window", |one| {
        one.first / window != one.last / window || one.count <= most
    })
}

/// At most the count in any second, wherever it begins.
fn in_any_period(admitted: &[u64], most: u64) -> Result<(), String> {
    every(admitted, "in any second", |one| {
        one.last - one.first >= PERIOD || one.count <= most
    })
}

/// At each admission: the admissions of its window so far, plus the part of the window before that
/// lies within the last second.
fn by_estimate(admitted: &[u64]) -> Result<(), String> {
    for (so_far, &at) in admitted.iter().enumerate() {
        let window = at / PERIOD;
        let of = |wanted: u64| move |one: &&u64| **one / PERIOD == wanted;
        let count = admitted[..=so_far].iter().filter(of(window)).count() as u64;
        let before = match window.checked_sub(1) {
            Some(before) => admitted.iter().filter(of(before)).count() as u64,
            None => 0,
        };
        if before * (PERIOD - at % PERIOD) + count * PERIOD > COUNT * PERIOD {
            return Err(format!("by estimate: {count} at {at}, {before} before"));
        }
    }
    Ok(())
}

/// No caller is admitted before it comes, or before callers that came earlier.
fn one_after_the_other(calls: &Calls) -> Result<(), String> {
    let queued = calls.arrivals.iter().zip(&calls.at);
    let queued: Vec<_> = queued
        .filter_map(|(came, at)| Some((*came, (*at)?)))
        .collect();
    if queued.iter().any(|(came, at)| at < came) {
        return Err("somebody was let go before it came".to_owned());
    }
    if !queued.is_sorted_by_key(|(_, at)| *at) {
        return Err("somebody was let go before those ahead of it".to_owned());
    }
    Ok(())
}

/// Whenever a caller joins, at most this many wait.
fn waiting(calls: &Calls, capacity: usize) -> Result<(), String> {
    for (call, now) in calls.arrivals.iter().enumerate() {
        let waiting = calls.at[..=call].iter().flatten().filter(|at| *at > now);
        let waiting = waiting.count();
        if waiting > capacity {
            return Err(format!("{waiting} wait at {now}"));
        }
    }
    Ok(())
}
