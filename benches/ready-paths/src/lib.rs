//! The [ready paths](paths) of tollgate, and how their instructions are counted by callgrind.
//!
//! A count does not depend on the load of the machine, so unlike a time it shows which path got longer. A program
//! executes itself under valgrind, once for N operations and once for 2N; the difference over N is one operation,
//! without the set-up. What it prepares, and one operation to warm up, are not counted at all, because calibrating a
//! clock never takes the same number of instructions twice.
//!
//! valgrind counts the instruction that reads the processor's counter as one, although it takes some 20 cycles.

pub mod paths;
pub mod quotas;

use std::process::Command;

/// The argument that selects the counted process. The operation and the number of repetitions follow.
const COUNTED: &str = "--counted";

/// In the counted process, repeats its operation and returns `true`. `prepare` gets the number of the operation.
///
/// # Panics
///
/// Panics if the arguments after `--counted` are not two numbers.
pub fn run_if_counted(prepare: impl FnOnce(usize) -> Box<dyn FnMut(u64)>) -> bool {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, word, which, times] = &arguments[..] else {
        return false;
    };
    if word != COUNTED {
        return false;
    }
    let mut work = prepare(which.parse().expect("an index"));
    work(1);
    operations_that_are_counted(&mut *work, times.parse().expect("a number"));
    true
}

/// Repeats the operation. callgrind counts from the beginning to the end of a function of this name.
#[inline(never)]
fn operations_that_are_counted(work: &mut dyn FnMut(u64), times: u64) {
    work(times);
}

/// Returns the version of valgrind, if it is installed.
pub fn valgrind() -> Option<String> {
    let output = Command::new("valgrind").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.trim().trim_start_matches("valgrind-").to_owned())
}

/// Counts the instructions of an operation of this program, by its number. `unit` is the number of operations in one
/// repetition, and more than 1 where a repetition is long.
///
/// # Panics
///
/// Panics if valgrind fails.
pub fn instructions(which: usize, unit: u64) -> f64 {
    let times = if unit == 1 { 2_000 } else { 2 };
    let of = |times: u64| move || total(which, times);
    loop {
        let (once, twice) = std::thread::scope(|scope| {
            let twice = scope.spawn(of(2 * times));
            (of(times)(), twice.join().expect("valgrind runs"))
        });
        // A clock that is calibrated while it is counted takes more than the operations.
        if let Some(more) = twice.checked_sub(once) {
            return more as f64 / (times * unit) as f64;
        }
    }
}

/// Runs this program under callgrind and reads the total that it reports at the end.
fn total(which: usize, times: u64) -> u64 {
    let this = std::env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*operations_that_are_counted*")
        .arg(this)
        .args([COUNTED, &which.to_string(), &times.to_string()])
        .output()
        .expect("valgrind is installed");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "valgrind failed:\n{report}");
    report
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse().ok())
        .unwrap_or_else(|| panic!("no total in valgrind's report:\n{report}"))
}
