//! `cargo xtask instructions`: counts the instructions of each ready path, beside those that `counts.txt` has.
//!
//! A count depends on the compiler, the target, a little on valgrind, and for new keys on the number of threads of the
//! machine, so the file names them. `--check` fails with 1 if a path takes over 2 % more than in the file, or is not in
//! both, and with 3 where the file is not comparable. `--write` renews the file. A change that raises a count on purpose
//! renews it in the same commit, and says why.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread::available_parallelism;

use clap::Parser;
use ready_paths::{instructions, paths, run_if_counted, valgrind};

/// The allowed growth of a count.
const ALLOWED: f64 = 1.02;

/// Differences below are noise, such as a counter that wraps, however short a path is.
const ALWAYS_ALLOWED: f64 = 0.5;

const NOT_COMPARABLE: u8 = 3;

/// Counts the instructions of ready paths.
#[derive(Parser)]
#[command(about = None)]
struct Options {
    /// A part of the names of the paths to count
    #[arg(default_value = "", conflicts_with = "write")]
    filter: String,
    /// Exit with 1 if a count is above that of the file, and with 3 if the file is not comparable
    #[arg(long)]
    check: bool,
    /// Renew the file
    #[arg(long)]
    write: bool,
}

fn main() -> ExitCode {
    let paths = paths::ready_paths();
    if run_if_counted(|which| paths[which].prepare()) {
        return ExitCode::SUCCESS;
    }
    let options = Options::parse();
    let Some(valgrind) = valgrind() else {
        println!("valgrind is not installed (`apt-get install valgrind`, or the like)");
        return ExitCode::from(u8::from(options.check || options.write));
    };
    let compiler = output("rustc", "-vV");
    let part = |key| compiler.lines().find_map(|line| line.strip_prefix(key));
    let [rustc, target] = ["release: ", "host: "].map(|key| part(key).expect("rustc says it"));
    // A map of keys has shards by the number of threads.
    let threads = available_parallelism().map_or(1, usize::from);
    let mut counts = format!("rustc {rustc}, {target}, valgrind {valgrind}, {threads} threads\n");

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.txt");
    let former = std::fs::read_to_string(&file).unwrap_or_default();
    if options.check && !former.starts_with("rustc ") {
        println!("{} does not say what it was counted with", file.display());
        return ExitCode::FAILURE;
    }
    if options.check && former.lines().next() != counts.lines().next() {
        let [then, now] = [&former, &counts].map(|it| it.lines().next().unwrap_or_default());
        println!("NOT CHECKED: the counts of {then:?} are not comparable with those of {now:?}");
        return ExitCode::from(NOT_COMPARABLE);
    }
    println!("{:>9} {:>9}", "now", "counts.txt");
    let lines = former.lines().skip(1);
    let (mut wrong, mut below, mut counted) = (0, 0, 0);
    let mut former = HashMap::new();
    for line in lines {
        let read = read(line).is_some_and(|(name, count)| former.insert(name, count).is_none());
        if !read {
            println!("in the file, but no count, or a second one: {line}");
            wrong += 1;
        }
    }
    for (which, path) in paths.iter().enumerate() {
        let before = former.remove(&*path.name);
        if !path.name.contains(&options.filter) {
            continue;
        }
        counted += 1;
        let count = instructions(which, path.unit);
        writeln!(counts, "{count:.1} {}", path.name).expect("memory is enough");
        let most = |it: f64| (it * ALLOWED).max(it + ALWAYS_ALLOWED);
        let (is_above, is_below) = match before {
            None => (true, false),
            Some(before) => (count > most(before), before > most(count)),
        };
        wrong += usize::from(is_above);
        below += usize::from(is_below);
        let mark = match (is_above, is_below) {
            (true, _) => '>',
            (_, true) => '<',
            _ => ' ',
        };
        let before = before.map_or("none".into(), |it| format!("{it:.1}"));
        println!("{count:9.1} {before:>9} {mark} {}", path.name);
    }
    for (name, count) in former {
        println!("{:>9} {count:9.1} > {name}", "none");
        wrong += 1;
    }
    if options.write {
        std::fs::write(&file, counts).expect("the file can be written");
    }
    if counted == 0 {
        println!("no path has {:?} in its name", options.filter);
        return ExitCode::FAILURE;
    }
    if below > 0 && !options.write {
        println!("counts below those of the file: {below}; with --write, a later loss shows");
    }
    println!("counts above those of the file, or not in both: {wrong}");
    ExitCode::from(u8::from(options.check && wrong > 0))
}

/// Reads a line of the file: a count and a name.
fn read(line: &str) -> Option<(&str, f64)> {
    let (count, name) = line.split_once(' ')?;
    let count: f64 = count.parse().ok()?;
    count.is_finite().then_some((name, count))
}

fn output(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
