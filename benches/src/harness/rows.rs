//! Rows: an operation, and the contenders that do it.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::{Options, Spread, Stopwatch};
use crate::line::{self, Line, Part};

/// A function that repeats an operation this many times, on any thread.
pub type Shared = Box<dyn Fn(u64) + Send + Sync>;

/// A contender's work, ready to be measured.
pub enum Work {
    /// Repeats an operation this many times, on one thread.
    Alone(Box<dyn FnMut(u64)>),
    /// A phase of a long queue.
    Line(Box<dyn Line>, Part),
    /// Repeats `unit` operations this many times, and returns the duration of the measured part.
    Timed {
        /// The number of operations in one unit.
        unit: u64,
        /// Runs them.
        batch: Box<dyn FnMut(u64) -> Duration>,
    },
}

impl Work {
    /// Runs it this many times, and returns the duration.
    pub fn time(&mut self, times: u64) -> Duration {
        match self {
            Work::Alone(work) => {
                let watch = Stopwatch::now();
                work(times);
                watch.elapsed()
            }
            Work::Line(line, part) => part.time(&mut **line, times),
            Work::Timed { batch, .. } => batch(times),
        }
    }

    /// Returns the number of operations in one unit.
    pub fn unit(&self) -> u64 {
        match self {
            Work::Alone(_) => 1,
            Work::Line(line, _) => line.count() as u64,
            Work::Timed { unit, .. } => *unit,
        }
    }

    /// Finds how many repetitions fill `wanted`, and warms the contender up.
    fn calibrate(&mut self, wanted: Duration) -> u64 {
        let mut times = 1;
        loop {
            let wall = Instant::now();
            // The shortest of three: on a busy machine a thread may begin milliseconds after the other one, so that a
            // batch of a few operations would seem long.
            let took = (0..3).map(|_| self.time(times)).min();
            let took = took.unwrap_or_default().max(Duration::from_nanos(1));
            // A batch with a long preparation is cut off at ten times the wanted length.
            let fills = took >= wanted / 4 || wall.elapsed() >= wanted * 10;
            if fills {
                let missing = wanted.as_secs_f64() / took.as_secs_f64();
                return (times as f64 * missing.min(4.0)).ceil().max(1.0) as u64;
            }
            times *= 2;
        }
    }

    /// Returns the nanoseconds per operation, over one batch.
    fn nanos(&mut self, times: u64) -> f64 {
        self.time(times).as_nanos() as f64 / (times * self.unit()) as f64
    }
}

/// One way to do the operation of a row. It is prepared only for its turn, so a row does not measure the memory of
/// its neighbours.
pub struct Contender {
    /// The name of the contender.
    pub name: String,
    /// The target for the ratio of ours to it.
    target: Option<f64>,
    /// Why ours may take longer.
    why: &'static str,
    /// The number of operations in a unit, if its instructions can be counted.
    pub counted: Option<u64>,
    /// The target for the instructions of an operation.
    pub instructions: Option<f64>,
    length: u32,
    prepare: Box<dyn Fn() -> Work>,
}

/// Creates a contender without targets.
pub fn made(name: &str, prepare: impl Fn() -> Work + 'static) -> Contender {
    Contender {
        name: name.to_owned(),
        target: None,
        why: "",
        counted: None,
        instructions: None,
        length: 1,
        prepare: Box::new(prepare),
    }
}

/// A contender on one thread.
pub fn alone<W: FnMut(u64) + 'static>(name: &str, work: impl Fn() -> W + 'static) -> Contender {
    let contender = made(name, move || Work::Alone(Box::new(work())));
    contender.counted(1)
}

/// A contender on two threads.
pub fn together(name: &str, prepare: impl Fn() -> Shared + 'static) -> Contender {
    abreast(2, name, prepare)
}

/// Creates a contender that the wall clock times.
pub fn walled<W: FnMut(u64) + 'static>(name: &str, work: impl Fn() -> W + 'static) -> Contender {
    made(name, move || {
        let mut work = work();
        let batch = Box::new(move |times| by_wall(|| work(times)));
        Work::Timed { unit: 1, batch }
    })
}

/// A contender whose tasks share two workers.
pub fn tasks(name: &str, prepare: impl Fn() -> Work + 'static) -> Contender {
    // Now and then all of them run on one core for a while.
    made(name, prepare).stretched(30)
}

/// Returns the duration of a call by the wall clock.
pub(super) fn by_wall(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Runs this many threads at the same time, and returns the time from the first start to the last
/// end.
pub fn abreast(threads: usize, name: &str, prepare: impl Fn() -> Shared + 'static) -> Contender {
    let contender = made(name, move || {
        let work = prepare();
        let unit = threads as u64;
        let batch = Box::new(move |times| {
            let line_up = Barrier::new(threads);
            thread::scope(|scope| {
                let run = || {
                    line_up.wait();
                    let start = Instant::now();
                    work(times);
                    (start, Instant::now())
                };
                let runners: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
                let spans = runners.into_iter().map(|it| it.join().expect("it ran"));
                let outer = |(a, b): (Instant, Instant), (c, d)| (a.min(c), b.max(d));
                let (first, last) = spans.reduce(outer).expect("there are threads");
                last - first
            })
        });
        Work::Timed { unit, batch }
    });
    // Batches of 40 ms: within the usual 4 ms the second worker has hardly begun.
    contender.stretched(10)
}

impl Contender {
    /// Prepares it. A queue has been used once, so that the semaphore's allocations for its waiters
    /// exist.
    pub fn prepare(&self) -> Work {
        let mut work = self.prepare_cold();
        if let Work::Line(line, _) = &mut work {
            line::warm(&mut **line);
        }
        work
    }

    /// Prepares it without using it.
    pub fn prepare_cold(&self) -> Work {
        (self.prepare)()
    }

    /// Sets the target: ours may take at most this multiple of its time.
    #[must_use]
    pub fn at_most(mut self, ratio: f64) -> Contender {
        self.target = Some(ratio);
        self
    }

    /// Says why ours may take longer.
    #[must_use]
    pub fn explained(mut self, why: &'static str) -> Contender {
        self.why = why;
        self
    }

    /// Allows counting the instructions of its operations, with this many in a unit.
    #[must_use]
    pub fn counted(mut self, unit: u64) -> Contender {
        self.counted = Some(unit);
        self
    }

    /// Makes its batches this many times as long as others. Several threads need that: a worker that has just been
    /// woken takes a while to find its share of the work, and until then there is no contention.
    #[must_use]
    pub fn stretched(mut self, length: u32) -> Contender {
        self.length = length;
        self
    }
}

/// One operation: ours, which is the first, and every peer's.
pub struct Row {
    /// The name of the operation.
    pub name: String,
    /// The contenders.
    pub contenders: Vec<Contender>,
    /// The operations in a second that all are asked for, where a limit paces them.
    pub rate: Option<f64>,
}

impl Row {
    /// Makes a row.
    pub fn new(name: impl Into<String>, contenders: impl IntoIterator<Item = Contender>) -> Row {
        Row {
            name: name.into(),
            contenders: contenders.into_iter().collect(),
            rate: None,
        }
    }

    /// States the rate that all contenders are asked for, in operations per second.
    #[must_use]
    pub fn at_rate(mut self, rate: f64) -> Row {
        self.rate = Some(rate);
        self
    }

    /// Sets the target against one of the peers: ours may take at most this multiple of its time.
    #[must_use]
    pub fn held(mut self, to: usize, ratio: f64) -> Row {
        self.contenders[to].target = Some(ratio);
        self
    }

    /// Drops the peers that set no target.
    pub(super) fn keep_targets(&mut self) {
        let mut is_ours = true;
        self.contenders
            .retain(|one| std::mem::take(&mut is_ours) || one.target.is_some());
    }

    /// Compares the contenders in turns.
    pub fn measure(&self, options: &Options) -> Vec<Comparison> {
        self.compare(&self.time(options))
    }

    /// Prepares the contenders and lets them take turns. Returns the nanoseconds per operation of each, by round.
    pub fn time(&self, options: &Options) -> Vec<Vec<f64>> {
        let mut works: Vec<_> = self.contenders.iter().map(Contender::prepare).collect();
        let calibrated = works.iter_mut().zip(&self.contenders);
        let times: Vec<_> = calibrated
            .map(|(work, one)| work.calibrate(options.batch * one.length))
            .collect();
        let count = works.len();
        let mut nanos = vec![Vec::with_capacity(options.rounds); count];
        for round in 0..options.rounds {
            for turn in 0..count {
                let at = (round + turn) % count;
                nanos[at].push(works[at].nanos(times[at]));
            }
        }
        nanos
    }

    /// Compares ours with each peer, by the nanoseconds of each in the same rounds.
    pub fn compare(&self, nanos: &[Vec<f64>]) -> Vec<Comparison> {
        let [ours, theirs @ ..] = nanos else {
            return Vec::new();
        };
        let peers = self.contenders.iter().skip(1).zip(theirs);
        let comparisons = peers.map(|(peer, theirs)| Comparison {
            peer: peer.name.clone(),
            ours: Spread::of(ours.clone()).median,
            theirs: Spread::of(theirs.clone()).median,
            ratio: Spread::of(ours.iter().zip(theirs).map(|(a, b)| a / b)),
            target: peer.target,
            why: peer.why,
        });
        comparisons.collect()
    }
}

/// The result against one peer.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The name of the peer.
    pub peer: String,
    /// Our nanoseconds an operation (median of the rounds).
    pub ours: f64,
    /// The peer's.
    pub theirs: f64,
    /// Ours over theirs, taken within each round.
    pub ratio: Spread,
    /// The target for the ratio.
    pub target: Option<f64>,
    /// Why ours may take longer.
    pub why: &'static str,
}

impl Comparison {
    /// Says which of the two is faster. They are equal where their order differs between the rounds: where 1 lies
    /// between the tenth and the ninetieth percentile of the ratios.
    pub fn result(&self) -> &'static str {
        match self.ratio {
            Spread { p90, .. } if p90 < 1.0 => "won",
            Spread { p10, .. } if p10 > 1.0 => "lost",
            _ => "equal",
        }
    }

    /// Returns whether a target was set and the median is above it.
    pub fn missed(&self) -> bool {
        // Compares at the printed precision: the third digit is noise.
        let printed = (self.ratio.median * 100.0).round() / 100.0;
        self.target.is_some_and(|target| printed > target)
    }
}
