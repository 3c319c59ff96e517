//! Sets contenders side by side and compares them round by round.
//!
//! The machine is shared and its clock moves, so a time alone says little. In every round each contender runs one batch
//! of a few milliseconds, in an order that rotates; the ratio is taken within the round, and the median of the rounds
//! is what counts. What disturbs one batch spoils one ratio of many, and what slows the whole machine cancels out.
//!
//! Work on one thread is timed by a [`Stopwatch`] that runs only while the thread does, so a neighbour on the same core
//! costs cache lines but no time. Work on several threads is timed by the wall clock, since waiting is part of it: those
//! rows want a machine that is otherwise idle.

mod options;
mod report;
mod table;

use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
pub use options::Options;
pub use report::{Entry, run};
pub use table::Table;

/// Measures the processor time of the thread that started it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(ThreadTime);

impl Stopwatch {
    /// Starts at nought.
    #[must_use]
    pub fn start() -> Stopwatch {
        Stopwatch(ThreadTime::now())
    }

    /// How long the thread has run since.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// One way to do the operation of a row.
pub struct Contender {
    name: String,
    unit: u64,
    length: u32,
    batch: Box<dyn FnMut(u64) -> Duration>,
}

impl Contender {
    /// Times `operation`, called in a loop.
    pub fn looped(name: impl Into<String>, mut operation: impl FnMut() + 'static) -> Contender {
        Contender::batched(name, 1, move |times| {
            let watch = Stopwatch::start();
            for _ in 0..times {
                operation();
            }
            watch.elapsed()
        })
    }

    /// `batch(times)` does `times * unit` operations and says how long the part took that is to be measured.
    pub fn batched(
        name: impl Into<String>,
        unit: u64,
        batch: impl FnMut(u64) -> Duration + 'static,
    ) -> Contender {
        Contender {
            name: name.into(),
            unit,
            length: 1,
            batch: Box::new(batch),
        }
    }

    /// Makes its batches so many times as long as others. Several threads need that: a worker that has just been woken
    /// takes a while to find its share of the work, and until then there is no contention.
    #[must_use]
    pub fn stretched(mut self, length: u32) -> Contender {
        self.length = length;
        self
    }

    /// Finds how many times fill `wanted`. It warms the contender up as well.
    fn calibrate(&mut self, wanted: Duration) -> u64 {
        let mut times = 1;
        loop {
            let wall = Instant::now();
            // The shortest of three: on a busy machine a thread may begin milliseconds after the other one, and a batch
            // of a few operations would be taken for a long one.
            let took = (0..3).map(|_| (self.batch)(times)).min();
            let took = took.unwrap_or_default().max(Duration::from_nanos(1));
            // A batch whose preparation takes long is cut at ten times the wanted length.
            let fills = took >= wanted / 4 || wall.elapsed() >= wanted * 10;
            if fills {
                let missing = wanted.as_secs_f64() / took.as_secs_f64();
                return (times as f64 * missing.min(4.0)).ceil().max(1.0) as u64;
            }
            times *= 2;
        }
    }

    /// Nanoseconds an operation, over one batch.
    fn nanos(&mut self, times: u64) -> f64 {
        (self.batch)(times).as_nanos() as f64 / (times * self.unit) as f64
    }
}

/// One operation: ours, and every peer's.
pub struct Row {
    ours: Contender,
    peers: Vec<(Contender, Option<f64>)>,
}

impl Row {
    /// Starts a row with our way.
    #[must_use]
    pub fn of(ours: Contender) -> Row {
        Row {
            ours,
            peers: Vec::new(),
        }
    }

    /// Adds a peer that we must not exceed by more than this factor.
    #[must_use]
    pub fn at_most(mut self, ratio: f64, peer: Contender) -> Row {
        self.peers.push((peer, Some(ratio)));
        self
    }

    /// Adds a peer for comparison only.
    #[must_use]
    pub fn beside(mut self, peer: Contender) -> Row {
        self.peers.push((peer, None));
        self
    }

    /// Without the peers that are there for comparison only.
    #[must_use]
    pub fn targets_only(mut self) -> Row {
        self.peers.retain(|(_, target)| target.is_some());
        self
    }

    /// Lets everybody take turns, and compares.
    #[must_use]
    pub fn measure(mut self, options: &Options) -> Vec<Comparison> {
        let mut targets = vec![None];
        let mut contenders = vec![self.ours];
        for (peer, target) in self.peers.drain(..) {
            contenders.push(peer);
            targets.push(target);
        }
        let times: Vec<u64> = contenders
            .iter_mut()
            .map(|contender| contender.calibrate(options.batch * contender.length))
            .collect();

        let count = contenders.len();
        let mut nanos = vec![Vec::with_capacity(options.rounds); count];
        for round in 0..options.rounds {
            for turn in 0..count {
                let at = (round + turn) % count;
                nanos[at].push(contenders[at].nanos(times[at]));
            }
        }

        (1..count)
            .map(|at| Comparison {
                peer: std::mem::take(&mut contenders[at].name),
                ours: Spread::of(nanos[0].clone()).median,
                theirs: Spread::of(nanos[at].clone()).median,
                ratio: Spread::of(
                    nanos[0]
                        .iter()
                        .zip(&nanos[at])
                        .map(|(a, b)| a / b)
                        .collect(),
                ),
                target: targets[at],
            })
            .collect()
    }
}

/// What came out against one peer.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Who the peer is.
    pub peer: String,
    /// Our nanoseconds an operation (median of the rounds).
    pub ours: f64,
    /// The peer's.
    pub theirs: f64,
    /// Ours over theirs, taken within each round.
    pub ratio: Spread,
    /// The ratio we are held to.
    pub target: Option<f64>,
}

impl Comparison {
    /// Whether a target was set and the median is above it.
    #[must_use]
    pub fn missed(&self) -> bool {
        // At the precision that is printed: the third digit is noise.
        let printed = (self.ratio.median * 100.0).round() / 100.0;
        self.target.is_some_and(|target| printed > target)
    }
}

/// Median, least and greatest of some figures.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Sums up the figures.
    ///
    /// # Panics
    ///
    /// When there are none.
    #[must_use]
    pub fn of(mut figures: Vec<f64>) -> Spread {
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        let median = if figures.len() % 2 == 1 {
            figures[middle]
        } else {
            f64::midpoint(figures[middle - 1], figures[middle])
        };
        Spread {
            median,
            min: figures[0],
            max: figures[figures.len() - 1],
        }
    }
}
