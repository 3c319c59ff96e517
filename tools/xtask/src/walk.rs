//! Counts the files and functions that one operation passes through, next to its budget and two peers. They are
//! those of its crate's own sources that a debug build executes, counted by callgrind. A line of another file that
//! is compiled into a function counts for its file; closures are not counted separately from their function.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Context, Result, ensure};
use regex::Regex;
use xshell::{Shell, cmd};

use crate::workspace::{members, rows, run};

/// The location of the sources of this workspace, relative to its root.
const OURS: &str = r"(?:src|crates/[\w-]+/src)/";

/// An operation of `tools/walk`, and its description; the maximum of files and functions, or the peer that it walks.
const WALKS: &str = "
semaphore    | contended acquire of a semaphore, with the hand-off    | 11 | 43
tokio        | the same of tokio's semaphore                          | tokio
rate         | contended acquire of a rate limiter, on a manual clock | 24 | 138
leaky-bucket | the same of leaky-bucket                               | leaky-bucket
fair         | hand-off of a fair queue in front of a semaphore       | 24 | 100
fair-pool    | the same in front of a pool                            | 24 | 99
fair-rate    | the same in front of a rate limiter                    | 38 | 195
http         | HTTP request through a layer with a free permit        | 12 | 26
";

/// A walk and a folder that it passes through, with the maximum of files and functions there. A folder that it does
/// not pass through is an error.
const ROOMS: &str = "
rate | src/rate/ | 6 | 39
";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// List the functions by file
    #[arg(long)]
    list: bool,
    /// Exit with 1 if a figure is above its budget
    #[arg(long)]
    check: bool,
    /// The walks to take [default: all]
    names: Vec<String>,
}

pub(crate) fn walk(shell: &Shell, options: &Options) -> Result<bool> {
    for chosen in &options.names {
        let is_known = rows(WALKS).any(|row| row[0] == chosen);
        ensure!(is_known, "there is no walk {chosen}");
    }
    for row in rows(ROOMS) {
        let is_walk = rows(WALKS).any(|walk| walk[0] == row[0]);
        ensure!(is_walk, "a bound of {} is of no walk: {}", row[1], row[0]);
    }
    let valgrind = run(cmd!(shell, "valgrind --version").ignore_stdout());
    valgrind.context("install your system's package valgrind")?;
    // Functions are listed by the file that contains them, including those of peers.
    let build = "build --quiet --locked --profile walk -p walk".split(' ');
    let base = "--config=profile.walk.inherits='dev'";
    let lines = "--config=profile.walk.package.'*'.debug='line-tables-only'";
    run(cmd!(shell, "cargo {build...} {base} {lines}"))?;
    let program = members(shell)?.target_directory.join("walk/walk");
    let out = program.with_extension("callgrind");
    let flags = ["--tool=callgrind", "--toggle-collect=walk::walk*"];
    let root = regex::escape(&shell.current_dir().to_string_lossy());
    let is_chosen = |name| options.names.is_empty() || options.names.iter().any(|it| it == name);
    let mut passed = true;
    println!(" files  at most  functions  at most");
    for row in rows(WALKS).filter(|row| is_chosen(row[0])) {
        let (name, title) = (row[0], row[1]);
        let walk = ["--callgrind-out-file", out.as_str()].join("=");
        let (most, sources) = match row[2..] {
            [files, functions] => ([files, functions], format!("^{root}/{OURS}")),
            _ => (["", ""], format!(r"^.*/{}-\d[^/]*/src/", row[2])),
        };
        let sources = Regex::new(&sources)?;
        let walked = || {
            run(cmd!(shell, "valgrind {flags...} {walk} {program} {name}").ignore_stderr())?;
            Ok(shell.read_file(&out)?)
        };
        // On a busy machine a clock may be calibrated during a walk.
        let walks = (0..3).map(|_| walked()).collect::<Result<Vec<_>>>()?;
        let fewest = walks
            .iter()
            .min_by_key(|text| executed(text, &sources).1.len());
        let text = fewest.context("there is no walk")?;
        let (files, functions) = executed(text, &sources);
        let wrong = "no file; is `walk` renamed, or built without lines?";
        ensure!(!files.is_empty(), "{name}: {wrong}");
        passed &= print(&format!("{name}: {title}"), (&files, &functions), most);
        for row in rows(ROOMS).filter(|row| row[0] == name) {
            let room = Regex::new(&format!("^{root}/{}", regex::escape(row[1])))?;
            let (files, functions) = executed(text, &room);
            ensure!(
                !files.is_empty(),
                "{name}: it does not pass through {}",
                row[1]
            );
            let title = format!("of it, in {}", row[1]);
            passed &= print(&title, (&files, &functions), [row[2], row[3]]);
        }
        for file in files.iter().filter(|_| options.list) {
            println!("    {}", sources.replace(file, ""));
            let functions = functions.iter().filter(|(home, _)| home == file);
            functions.for_each(|(_, function)| println!("        {function}"));
        }
    }
    Ok(passed || !options.check)
}

/// Prints the figures next to their budgets, which may be empty. Returns whether they are within.
fn print(title: &str, (files, functions): (&Files<'_>, &Functions<'_>), most: [&str; 2]) -> bool {
    let (found, [first, second]) = ([files.len(), functions.len()], most);
    let [some, all] = found;
    println!("{some:6} {first:>8} {all:10} {second:>8}  {title}");
    let is_within =
        |(found, most): (usize, &str)| most.parse().map_or(true, |most: usize| found <= most);
    found.into_iter().zip(most).all(is_within)
}

type Files<'a> = BTreeSet<&'a str>;
type Functions<'a> = BTreeSet<(&'a str, &'a str)>;
type Executed<'a> = (Files<'a>, Functions<'a>);

/// Returns the files of all executed lines, and the functions, each with the file that contains it.
///
/// A name is written in full at its first use, and as a number after that. The line after `calls=`
/// has the cost of the callee; all other lines have the cost of the function itself.
fn executed<'a>(text: &'a str, sources: &Regex) -> Executed<'a> {
    let (mut names, mut files, mut functions) = (HashMap::new(), BTreeSet::new(), BTreeSet::new());
    let (mut file, mut function, mut is_call) = ("", ("", ""), false);
    for line in text.lines() {
        let named = line.split_once("=(");
        let named = named.and_then(|(key, rest)| Some((key, rest.split_once(')')?)));
        if let Some((key, (number, name))) = named {
            let kind = match key {
                "fl" | "fi" | "fe" | "cfl" | "cfi" => "file",
                _ => key.trim_start_matches('c'),
            };
            let name = *names.entry((kind, number)).or_insert(name.trim_start());
            match key {
                "fl" | "fi" | "fe" => file = name,
                "fn" => function = (file, name),
                _ => {}
            }
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "-+*".contains(first)) {
            // Code that the compiler adds has the line 0 of the root of its crate.
            if !is_call && !line.starts_with("0 ") {
                files.insert(file);
                functions.insert((function.0, plain(function.1)));
            }
            is_call = false;
        }
    }
    files.retain(|file| sources.is_match(file));
    functions.retain(|(home, name)| sources.is_match(home) && !name.contains("{{closure}}"));
    (files, functions)
}

/// Returns a name without the number that marks a recursive call.
fn plain(function: &str) -> &str {
    let plain = function.trim_end_matches(|last: char| last.is_ascii_digit());
    let plain = plain.strip_suffix('\'').filter(|_| plain != function);
    plain.unwrap_or(function)
}
