//! The longest single call of a fair queue while a million callers wait.
//!
//! Every call is timed by itself, by the processor time of the thread. Each round does the same, so what counts for a call
//! is the least of its times over the rounds: what disturbs the machine disturbs another call in each. The rows have the
//! longest of these.

use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::fair::{ClassHandle, FairQueue};
use tollgate::{Semaphore, Throttle, Waiting};
use tollgate_bench::cells;
use tollgate_bench::harness::{Options, Stopwatch, Table};

/// With so many classes, and all settings by default.
const CLASSES: [usize; 3] = [1, 100, 10_000];

type Wait = Waiting<<ClassHandle<Arc<Semaphore>, usize> as Throttle>::Enter>;

/// The calls of an operation, in their order: the least time of each.
#[derive(Default)]
struct Calls(Vec<Duration>);

impl Calls {
    /// Adds a round, which calls `next` until there are no more.
    fn round(&mut self, mut next: impl FnMut() -> Option<Duration>) {
        let mut index = 0;
        while let Some(took) = next() {
            match self.0.get_mut(index) {
                Some(least) => *least = took.min(*least),
                None => self.0.push(took),
            }
            index += 1;
        }
    }

    fn row(&self, operation: &str, classes: usize) -> Vec<String> {
        let sum: Duration = self.0.iter().sum();
        let longest = self.0.iter().max().copied().unwrap_or_default();
        let micros = |took: Duration| format!("{:.1}", took.as_nanos() as f64 / 1e3);
        let mean = sum / self.0.len().max(1) as u32;
        cells![
            operation,
            classes,
            self.0.len(),
            micros(mean),
            micros(longest)
        ]
    }
}

/// Times one call.
fn timed<T>(call: impl FnOnce() -> T) -> (Duration, T) {
    let watch = Stopwatch::start();
    let result = black_box(call());
    (watch.elapsed(), result)
}

fn poll(wait: &mut Wait) -> Poll<<Wait as Future>::Output> {
    let mut context = Context::from_waker(Waker::noop());
    Pin::new(wait).poll(&mut context)
}

/// Measures, and prints a table.
pub(crate) fn print(options: &Options) {
    let (rounds, waiters) = crate::crowds(options);
    let mut table = Table::new(&["operation", "classes", "calls", "mean us", "longest us"]);
    for classes in CLASSES {
        let names = [
            "fair: join",
            "fair: release, grant and collect",
            "fair: cancel, in any order",
        ];
        if !names.iter().any(|name| options.wants(name)) {
            continue;
        }
        let [mut joins, mut grants, mut cancels] = [(); 3].map(|()| Calls::default());
        for round in 0..rounds {
            eprintln!("measuring: fair, {classes} classes, round {round}");
            let queue = FairQueue::new(Arc::new(Semaphore::new(1)));
            // Callers free nothing of their own: an allocator that comes to tidy up a million small blocks takes longer
            // than any call.
            let handles: Vec<_> = (0..classes).map(|key| queue.class(key)).collect();
            let mut held = handles[0].try_acquire().ok();
            let fill = |joins: &mut Calls| {
                let wait = |index: usize| Some(handles[index % classes].acquire());
                let mut waits: Vec<Option<Wait>> = (0..waiters).map(wait).collect();
                let mut each = waits.iter_mut().flatten();
                joins.round(|| each.next().map(|wait| timed(|| poll(wait)).0));
                waits
            };
            // First-in first-out over all classes, since they take turns as they came.
            let mut waits = fill(&mut joins);
            let mut each = waits.iter_mut().flatten();
            grants.round(|| {
                let wait = each.next()?;
                let (took, polled) = timed(|| {
                    drop(held.take());
                    poll(wait)
                });
                match polled {
                    Poll::Ready(permit) => held = permit.ok(),
                    Poll::Pending => panic!("the next waiter is served"),
                }
                Some(took)
            });
            // A prime step through all of them.
            let mut waits = fill(&mut joins);
            let mut steps = (0..waiters).map(|step| step * 7_368_787 % waiters);
            cancels.round(|| {
                let wait = waits[steps.next()?].take();
                Some(timed(|| drop(wait)).0)
            });
            assert_eq!(queue.waiting(), 0);
        }
        for (name, calls) in names.iter().zip([joins, grants, cancels]) {
            table.push(calls.row(name, classes));
        }
    }
    eprintln!();
    table.print(options.markdown);
}
