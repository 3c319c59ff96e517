//! `cargo bench -p tollgate-bench --bench instructions`: instructions an operation, counted by callgrind.
//!
//! A count does not depend on the machine's load, so it says what a time on a busy machine cannot: which path got
//! longer. The program runs itself under valgrind, once for N operations and once for 2N; the difference over N is one
//! operation, without the start of the process and without what the first operations set up.
//!
//! Without valgrind (`apt-get install valgrind`, or the like) it says so and counts nothing; with `--check` that is an
//! error, and so is a count above its target.

use std::process::{Command, ExitCode};

use async_lock::Semaphore as AsyncLock;
use asyncband::semaphore::Semaphore as Asyncband;
use futures_intrusive::sync::Semaphore as Intrusive;
use tokio::sync::Semaphore as Tokio;
use tollgate_bench::harness::{Options, Table};
use tollgate_bench::line::{self, Line, Order};
use tollgate_bench::peer::{Ours, Peer};
use tollgate_bench::ready;

/// Runs so many operations.
type Work = Box<dyn FnMut(u64)>;

/// An operation of one contender, the most instructions it may take, and how many operations one call of the work does.
struct Counted {
    operation: &'static str,
    contender: &'static str,
    target: Option<f64>,
    unit: u64,
    prepare: fn() -> Work,
}

const fn counted(
    operation: &'static str,
    contender: &'static str,
    prepare: fn() -> Work,
) -> Counted {
    Counted {
        operation,
        contender,
        target: None,
        unit: 1,
        prepare,
    }
}

const fn held_to(target: f64, counted: Counted) -> Counted {
    Counted {
        target: Some(target),
        ..counted
    }
}

/// In a line of `unit` waiters; the count is for one of them.
const fn in_line(unit: usize, counted: Counted) -> Counted {
    Counted {
        unit: unit as u64,
        ..counted
    }
}

/// How long the short line is and how long the long one: what is O(1) costs the same in both.
const SHORT: usize = 1_000;
const LONG: usize = 10_000;

const TRY: &str = "try_acquire + drop";
const READY: &str = "acquire ready + drop";
const CANCELLABLE: &str = "acquire_cancellable ready + drop";
const OWNED: &str = "owned try + drop";
const HAND_ON: &str = "enqueue + drain, of 10,000";
const CANCEL_SHORT: &str = "enqueue + cancel, random, of 1,000";
const CANCEL_LONG: &str = "enqueue + cancel, random, of 10,000";
const CANCEL_FIRST: &str = "enqueue + cancel, first-in first, of 10,000";
const CANCEL_LAST: &str = "enqueue + cancel, last-in first, of 10,000";

const ALL: &[Counted] = &[
    held_to(
        30.0,
        counted(TRY, Ours::NAME, || Box::new(ready::try_acquire::<Ours>())),
    ),
    counted(TRY, "floor", || Box::new(ready::floor())),
    counted(TRY, Tokio::NAME, || Box::new(ready::try_acquire::<Tokio>())),
    counted(TRY, AsyncLock::NAME, || {
        Box::new(ready::try_acquire::<AsyncLock>())
    }),
    counted(TRY, Intrusive::NAME, || {
        Box::new(ready::try_acquire::<Intrusive>())
    }),
    counted(TRY, Asyncband::NAME, || {
        Box::new(ready::try_acquire::<Asyncband>())
    }),
    counted(TRY, "mutex, condvar", || {
        Box::new(ready::condvar_try_acquire())
    }),
    counted(READY, Ours::NAME, || Box::new(ready::acquire::<Ours>())),
    counted(READY, Tokio::NAME, || Box::new(ready::acquire::<Tokio>())),
    counted(READY, AsyncLock::NAME, || {
        Box::new(ready::acquire::<AsyncLock>())
    }),
    counted(READY, Intrusive::NAME, || {
        Box::new(ready::acquire::<Intrusive>())
    }),
    counted(READY, Asyncband::NAME, || {
        Box::new(ready::acquire::<Asyncband>())
    }),
    counted(READY, "tower ConcurrencyLimit", || {
        Box::new(ready::tower_call())
    }),
    counted(CANCELLABLE, Ours::NAME, || {
        Box::new(ready::acquire_cancellable::<Ours>())
    }),
    counted(CANCELLABLE, Tokio::NAME, || {
        Box::new(ready::acquire_cancellable::<Tokio>())
    }),
    counted(OWNED, Ours::NAME, || {
        Box::new(ready::try_acquire_owned::<Ours>())
    }),
    counted(OWNED, Tokio::NAME, || {
        Box::new(ready::try_acquire_owned::<Tokio>())
    }),
    in_line(
        LONG,
        counted(HAND_ON, Ours::NAME, || handed_on(line::boxed::<Ours>(LONG))),
    ),
    in_line(
        LONG,
        counted(HAND_ON, Tokio::NAME, || {
            handed_on(line::boxed::<Tokio>(LONG))
        }),
    ),
    in_line(
        LONG,
        counted(HAND_ON, Intrusive::NAME, || {
            handed_on(line::boxed::<Intrusive>(LONG))
        }),
    ),
    in_line(
        SHORT,
        counted(CANCEL_SHORT, Ours::NAME, || {
            cancelled::<Ours>(Order::Random, SHORT)
        }),
    ),
    in_line(
        SHORT,
        counted(CANCEL_SHORT, Tokio::NAME, || {
            cancelled::<Tokio>(Order::Random, SHORT)
        }),
    ),
    in_line(
        LONG,
        counted(CANCEL_LONG, Ours::NAME, || {
            cancelled::<Ours>(Order::Random, LONG)
        }),
    ),
    in_line(
        LONG,
        counted(CANCEL_LONG, Tokio::NAME, || {
            cancelled::<Tokio>(Order::Random, LONG)
        }),
    ),
    in_line(
        LONG,
        counted(CANCEL_FIRST, Ours::NAME, || {
            cancelled::<Ours>(Order::FirstIn, LONG)
        }),
    ),
    in_line(
        LONG,
        counted(CANCEL_FIRST, Tokio::NAME, || {
            cancelled::<Tokio>(Order::FirstIn, LONG)
        }),
    ),
    in_line(
        LONG,
        counted(CANCEL_LAST, Ours::NAME, || {
            cancelled::<Ours>(Order::LastIn, LONG)
        }),
    ),
    in_line(
        LONG,
        counted(CANCEL_LAST, Tokio::NAME, || {
            cancelled::<Tokio>(Order::LastIn, LONG)
        }),
    ),
];

fn handed_on(mut line: Box<dyn Line>) -> Work {
    line::warm(&mut *line);
    Box::new(move |times| {
        line::time_both(&mut *line, times);
    })
}

fn cancelled<P: Peer>(order: Order, count: usize) -> Work {
    let places = order.places(count);
    let mut line = line::boxed::<P>(count);
    line::warm(&mut *line);
    Box::new(move |times| {
        line::time_cancel(&mut *line, &places, times);
    })
}

/// The word that makes the process the one that is counted, followed by which operation and how many times.
const COUNTED: &str = "--counted";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, which, times] = &arguments[..]
        && word == COUNTED
    {
        let which: usize = which.parse().expect("an index");
        (ALL[which].prepare)()(times.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }

    let options = Options::from_args();
    if options.rounds == 1 {
        // Run as a test, not as a benchmark: every operation once, without valgrind.
        ALL.iter().for_each(|one| (one.prepare)()(1));
        return ExitCode::SUCCESS;
    }
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        println!(
            "valgrind is not to be had ({error}), and nothing was counted: install your system's valgrind package"
        );
        return if options.check {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        };
    }

    let mut table = Table::new(&[
        "operation",
        "contender",
        "instructions",
        "target",
        "verdict",
    ]);
    let mut missed = false;
    for (which, one) in ALL.iter().enumerate() {
        if !options.wants(one.operation) {
            continue;
        }
        eprintln!("counting: {}, {}", one.operation, one.contender);
        // A call on a line does a thousand operations and more.
        let times = if one.unit == 1 { 2_000 } else { 2 };
        let more = instructions(which, 2 * times) - instructions(which, times);
        let count = more as f64 / (times * one.unit) as f64;
        let above = one.target.is_some_and(|target| count > target);
        missed |= above;
        table.push(vec![
            one.operation.to_owned(),
            one.contender.to_owned(),
            format!("{count:.1}"),
            one.target
                .map_or_else(String::new, |target| format!("<= {target}")),
            match (one.target, above) {
                (None, _) => "",
                (Some(_), true) => "MISS",
                (Some(_), false) => "PASS",
            }
            .to_owned(),
        ]);
    }
    eprintln!();
    table.print(options.markdown);
    if options.check && missed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Runs this program under callgrind and reads the total that it reports at the end.
fn instructions(which: usize, times: u64) -> u64 {
    let this = std::env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(this)
        .args([COUNTED, &which.to_string(), &times.to_string()])
        .output()
        .expect("valgrind was there a moment ago");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "valgrind failed:\n{report}");
    report
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse().ok())
        .unwrap_or_else(|| panic!("no total in valgrind's report:\n{report}"))
}
