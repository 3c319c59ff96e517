//! `cargo bench -p tollgate-bench --bench instructions`: instructions an operation, counted by callgrind.
//!
//! A count does not depend on the machine's load, so it says what a time on a busy machine cannot: which path got
//! longer. The program runs itself under valgrind, once for N operations and once for 2N; the difference over N is one
//! operation, without what the first operations set up. What comes before them, and one operation to begin with, is
//! not counted at all: to calibrate a clock never takes as many instructions twice.
//!
//! Without valgrind (`apt-get install valgrind`, or the like) it says so and counts nothing; with `--check` that is an
//! error, and so is a count above its target.

mod bytes;
mod fair;
mod http;
mod rates;
mod semaphore;
mod throttles;

use std::process::{Command, ExitCode};

use tollgate_bench::harness::{Options, Table};
use tollgate_bench::line::{self, Line};

/// Runs so many operations.
pub(crate) type Work = Box<dyn FnMut(u64)>;

/// An operation of one contender, the most instructions it may take, and how many operations one call of the work does.
#[derive(Clone, Copy)]
pub(crate) struct Counted {
    operation: &'static str,
    contender: &'static str,
    target: Option<f64>,
    unit: u64,
    prepare: fn() -> Work,
}

pub(crate) const fn counted(
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

pub(crate) const fn held_to(target: f64, counted: Counted) -> Counted {
    Counted {
        target: Some(target),
        ..counted
    }
}

/// In a line of `unit` waiters; the count is for one of them.
pub(crate) const fn in_line(unit: usize, counted: Counted) -> Counted {
    Counted {
        unit: unit as u64,
        ..counted
    }
}

/// Joining a line and being let through it.
pub(crate) fn handed_on(mut line: Box<dyn Line>) -> Work {
    line::warm(&mut *line);
    Box::new(move |times| {
        line::time_both(&mut *line, times);
    })
}

/// The word that makes the process the one that is counted, followed by which operation and how many times.
const COUNTED: &str = "--counted";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let all = [
        semaphore::COUNTED,
        throttles::COUNTED,
        fair::COUNTED,
        rates::COUNTED,
        http::COUNTED,
        bytes::COUNTED,
    ]
    .concat();
    if let [_, word, which, times] = &arguments[..]
        && word == COUNTED
    {
        let which: usize = which.parse().expect("an index");
        let mut work = (all[which].prepare)();
        work(1);
        operations_that_are_counted(&mut *work, times.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }

    let options = Options::from_args();
    if options.rounds == 1 {
        // Run as a test, not as a benchmark: every operation once, without valgrind.
        all.iter().for_each(|one| (one.prepare)()(1));
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
    for (which, one) in all.iter().enumerate() {
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

/// callgrind is told this function's name, and counts from its beginning to its end.
#[inline(never)]
fn operations_that_are_counted(work: &mut dyn FnMut(u64), times: u64) {
    work(times);
}

/// Runs this program under callgrind and reads the total that it reports at the end.
fn instructions(which: usize, times: u64) -> u64 {
    let this = std::env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*operations_that_are_counted*")
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
