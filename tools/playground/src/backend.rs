//! Simulates a backend: some workers, a queue in front of them, and work that takes longer with more
//! calls beyond the workers.

use std::collections::VecDeque;

/// The mean of the work while the backend is not slow, in microseconds. It varies by half.
const WORK: u64 = 40_000;

/// The number of excess calls per worker at which the work takes twice as long.
const SLOWDOWN_AT: f64 = 4.0;

/// The deadline in microseconds. Later answers are useless.
const DEADLINE: u64 = 250_000;

/// A backend whose calls hold `P` until they end.
pub(crate) struct Backend<P> {
    pub(crate) workers: usize,
    queue: VecDeque<Call<P>>,
    working: Vec<Working<P>>,
    random: u64,
    answers: Answers,
}

struct Call<P> {
    began: u64,
    permit: P,
}

struct Working<P> {
    ends: u64,
    call: Call<P>,
}

/// The last answers: the time of each in milliseconds, and its latency in microseconds.
struct Answers {
    seconds: u64,
    list: VecDeque<(u64, u64)>,
}

/// The performance of a limit in front of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Performance {
    pub(crate) limit: u64,
    /// The answers per second within the deadline.
    pub(crate) goodput: u64,
    /// The 99th percentile of the latency in milliseconds.
    pub(crate) p99_ms: f64,
}

impl<P> Backend<P> {
    /// Creates a backend whose performance is that of the last `seconds`.
    pub(crate) fn new(workers: usize, seconds: u64) -> Self {
        let list = VecDeque::new();
        Self {
            workers,
            queue: VecDeque::new(),
            working: Vec::new(),
            random: 0x9E37_79B9_7F4A_7C15,
            answers: Answers { seconds, list },
        }
    }

    pub(crate) fn call(&mut self, permit: P, now: u64) {
        let began = now * 1000;
        self.queue.push_back(Call { began, permit });
        self.start(began);
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.queue.len() + self.working.len()
    }

    /// Ends the calls whose work is done at this millisecond, and drops their permits.
    pub(crate) fn step(&mut self, now: u64) {
        let ended = |working: &Working<P>| working.ends <= now * 1000;
        while let Some(at) = self.working.iter().position(ended) {
            let Working { ends, call } = self.working.swap_remove(at);
            self.answers.list.push_back((now, ends - call.began));
            drop(call.permit);
            self.start(ends);
        }
        self.start(now * 1000);
        self.answers.forget_before(now);
    }

    /// Lets idle workers take calls from the queue, at a time in microseconds.
    fn start(&mut self, at: u64) {
        while self.working.len() < self.workers {
            let excess = self.in_flight().saturating_sub(self.workers);
            let Some(call) = self.queue.pop_front() else {
                return;
            };
            let slowdown = 1.0 + (excess as f64 / self.workers as f64 / SLOWDOWN_AT).powi(2);
            let work = WORK as f64 * slowdown * (0.5 + self.draw());
            let ends = at + work as u64;
            self.working.push(Working { ends, call });
        }
    }

    /// Returns the next number from 0 to 1, of a generator by Marsaglia. It is the same in each run.
    fn draw(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn performance(&self, limit: u64) -> Performance {
        let (goodput, p99_ms) = self.answers.judge();
        Performance {
            limit,
            goodput,
            p99_ms,
        }
    }
}

impl Answers {
    fn forget_before(&mut self, now: u64) {
        let length = self.seconds * 1000;
        while self.list.front().is_some_and(|(at, _)| at + length <= now) {
            self.list.pop_front();
        }
    }

    /// Returns the number of answers in time per second, and the 99th percentile of the latencies in milliseconds.
    fn judge(&self) -> (u64, f64) {
        let mut latencies: Vec<u64> = self.list.iter().map(|it| it.1).collect();
        latencies.sort_unstable();
        let in_time = latencies.partition_point(|&it| it <= DEADLINE);
        let p99 = latencies.get(latencies.len() * 99 / 100).copied();
        (
            in_time as u64 / self.seconds,
            p99.unwrap_or_default() as f64 / 1000.0,
        )
    }
}

/// Returns the performance of a fixed limit in eight seconds after the first two, if calls without a permit are
/// refused.
pub(crate) fn fixed(workers: usize, limit: usize, calls: u32) -> Performance {
    let mut backend = Backend::new(workers, 8);
    let mut pace = crate::steps::Pace::new(calls);
    for now in 1..=10_000 {
        backend.step(now);
        for _ in 0..pace.due() {
            if backend.in_flight() < limit {
                backend.call((), now);
            }
        }
    }
    backend.performance(limit as u64)
}

/// Returns the smallest fixed limit with 99 % of the goodput of any other, and its performance.
pub(crate) fn best_fixed(workers: usize, calls: u32) -> Performance {
    let limits = workers..=workers * 3 / 2 + 4;
    let all: Vec<_> = limits.map(|limit| fixed(workers, limit, calls)).collect();
    let most = all.iter().map(|it| it.goodput).max().unwrap_or_default();
    let good = |it: &&Performance| it.goodput * 100 >= most * 99;
    all.iter().find(good).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn result(limit: u64, goodput: u64, p99_ms: f64) -> Performance {
        Performance {
            limit,
            goodput,
            p99_ms,
        }
    }

    #[test]
    fn fixed_too_low_a_limit_leaves_workers_idle_and_too_high_a_one_queues() {
        let found = [5, 11, 20, 100].map(|limit| fixed(10, limit, 1200));
        let expected = [
            result(5, 122, 59.516),
            result(11, 247, 67.814),
            result(20, 236, 112.749),
            result(100, 0, 2600.377),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn best_fixed_is_a_little_more_than_the_workers() {
        let best = [2, 4, 10, 30, 40].map(|workers| best_fixed(workers, 1200).limit);
        assert_eq!(best, [2, 5, 11, 32, 43]);
    }

    #[test]
    fn step_a_call_ends_after_its_work_and_drops_its_permit() {
        let permit = Rc::new(());
        let mut backend = Backend::new(1, 1);
        backend.call(Rc::clone(&permit), 0);
        backend.call(Rc::clone(&permit), 0);
        // The mean of the work is 40 ms, and the second call waits for the only worker.
        let ended = (1..200).filter(|&now| {
            let before = backend.in_flight();
            backend.step(now);
            assert_eq!(Rc::strong_count(&permit), 1 + backend.in_flight());
            backend.in_flight() < before
        });
        assert_eq!(ended.collect::<Vec<_>>(), [55, 91]);
    }
}
