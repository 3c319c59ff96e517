//! `cargo bench -p tollgate-bench --bench instructions`: instructions per operation, ours and the peers', counted by
//! callgrind as [`ready_paths`] does. `cargo xtask instructions` counts ours alone, and compares with the counts before.
//!
//! The rows are those of `ratios` whose work is on one thread. For a queue, the count includes
//! joining and leaving.
//!
//! Without valgrind (`apt-get install valgrind`, or the like) the program says so and counts nothing; with `--check`
//! that is an error, and so is a count above its target.

use std::process::ExitCode;

use ready_paths::{instructions, run_if_counted, valgrind};
use tollgate_bench::harness::{Contender, Options, Table, verdict};
use tollgate_bench::{THEMES, UNCOUNTED};

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
    let all = all();
    let is_counted = run_if_counted(|which| {
        let mut work = all[which].0.prepare();
        Box::new(move |times| {
            work.time(times);
        })
    });
    if is_counted {
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
    if valgrind().is_none() {
        println!("valgrind is not installed, and nothing was counted");
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
        let count = instructions(which, *unit);
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
