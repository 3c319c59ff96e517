//! `cargo bench -p tollgate-bench --bench instructions`: instructions per operation, counted by
//! callgrind.
//!
//! A count does not depend on the machine's load, so unlike a time on a busy machine it shows which path got longer.
//! The program runs itself under valgrind, once for N operations and once for 2N; the difference over N is one
//! operation, without the set-up of the first operations. The set-up before them and one warm-up operation are not
//! counted at all, because calibrating a clock never takes the same number of instructions twice.
//!
//! The rows are those of `ratios` whose work is on one thread. For a queue, the count includes
//! joining and leaving.
//!
//! Without valgrind (`apt-get install valgrind`, or the like) the program says so and counts nothing; with `--check`
//! that is an error, and so is a count above its target.

use std::process::{Command, ExitCode};

use tollgate_bench::harness::{Contender, Options, Table, Work, verdict};
use tollgate_bench::{THEMES, UNCOUNTED};

/// The word that selects the counted process, followed by the number of the operation and the
/// number of repetitions.
const COUNTED: &str = "--counted";

/// Returns every contender whose operation can be counted, its batch size, and the operation.
fn all() -> Vec<(Contender, u64, String)> {
    let themes = THEMES
        .iter()
        .filter(|(theme, _)| !UNCOUNTED.contains(theme));
    let rows = themes.flat_map(|(_, rows)| rows());
    let contenders = rows.flat_map(|row| {
        let of_row = row.contenders.into_iter();
        of_row.filter_map(move |it| it.counted.map(|unit| (it, unit, row.name.clone())))
    });
    contenders.collect()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let all = all();
    if let [_, word, which, times] = &arguments[..]
        && word == COUNTED
    {
        let which: usize = which.parse().expect("an index");
        let mut work = all[which].0.prepare();
        work.time(1);
        operations_that_are_counted(&mut work, times.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }

    let options = Options::from_args();
    if options.rounds == 1 {
        // Run as a test, not as a benchmark: every operation once, without valgrind.
        for (contender, ..) in &all {
            contender.prepare().time(1);
        }
        return ExitCode::SUCCESS;
    }
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        println!(
            "valgrind is not to be had ({error}), and nothing was counted: install your system's valgrind package"
        );
        return ExitCode::from(u8::from(options.check));
    }

    let mut table = Table::new("operation | contender | instructions | target | verdict");
    let mut missed = false;
    for (which, (contender, unit, operation)) in all.iter().enumerate() {
        if !options.wants(operation) {
            continue;
        }
        let name = &contender.name;
        eprintln!("counting: {operation}, {name}");
        // One call on a queue does a thousand operations and more.
        let times = if *unit == 1 { 2_000 } else { 2 };
        let more = instructions(which, 2 * times) - instructions(which, times);
        let count = more as f64 / (times * unit) as f64;
        let held = contender.instructions.map_or("|".to_owned(), |target| {
            missed |= count > target;
            format!("<= {target} | {}", verdict(count <= target))
        });
        table.push(format!("{operation} | {name} | {count:.1} | {held}"));
    }
    eprintln!();
    table.print(options.markdown);
    ExitCode::from(u8::from(options.check && missed))
}

/// Runs the operations. callgrind gets this function's name, and counts from its beginning to its end.
#[inline(never)]
fn operations_that_are_counted(work: &mut Work, times: u64) {
    work.time(times);
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
