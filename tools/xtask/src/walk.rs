//! How many files and functions one operation passes through, beside its budget and two peers: those of
//! its crate's own sources that a debug build executes, counted by callgrind. A line of another file that
//! is compiled into a function counts for its file; closures are not counted apart from their function.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Context, Result, ensure};
use regex::Regex;
use xshell::{Shell, cmd};

use crate::workspace::members;

/// Where the sources of this workspace are, from its root.
const OURS: &str = r"(?:src|crates/[\w-]+/src)/";
const TOKIO: &str = r".*/tokio-\d[^/]*/src/";
const LEAKY_BUCKET: &str = r".*/leaky-bucket-\d[^/]*/src/";
const NO_BUDGET: [usize; 2] = [usize::MAX; 2];

/// An operation of `tools/walk`, what it is, its crate's sources, and the most files and functions.
const WALKS: [(&str, &str, &str, [usize; 2]); 6] = [
    (
        "semaphore",
        "contended acquire of a semaphore, with the hand-off",
        OURS,
        [12, 42],
    ),
    ("tokio", "the same of tokio's semaphore", TOKIO, NO_BUDGET),
    (
        "rate",
        "contended acquire of a rate limiter, on a manual clock",
        OURS,
        [18, 80],
    ),
    (
        "leaky-bucket",
        "the same of leaky-bucket",
        LEAKY_BUCKET,
        NO_BUDGET,
    ),
    (
        "fair",
        "hand-off of a fair queue in front of a semaphore",
        OURS,
        [26, 110],
    ),
    (
        "http",
        "HTTP request through a layer with a free permit",
        OURS,
        [12, 26],
    ),
];

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
        let is_known = WALKS.iter().any(|(name, ..)| name == chosen);
        ensure!(is_known, "there is no walk {chosen}");
    }
    let valgrind = cmd!(shell, "valgrind --version")
        .quiet()
        .ignore_stdout()
        .run();
    valgrind.context("install your system's package valgrind")?;
    // Functions by the file that they are in, of peers too.
    let lines = [
        "profile.walk.inherits='dev'",
        "profile.walk.package.'*'.debug='line-tables-only'",
    ];
    let lines = lines.iter().flat_map(|line| ["--config", line]);
    cmd!(
        shell,
        "cargo build --quiet --locked --profile walk -p walk {lines...}"
    )
    .quiet()
    .run()?;
    let program = members(shell)?.target_directory.join("walk/walk");
    let out = program.with_extension("callgrind");
    let flags = ["--tool=callgrind", "--toggle-collect=walk::walk*"];
    let root = regex::escape(&shell.current_dir().to_string_lossy());
    let mut passed = true;
    println!(
        "{:>6} {:>8} {:>10} {:>8}",
        "files", "at most", "functions", "at most"
    );
    for (name, title, sources, most) in WALKS {
        if !options.names.is_empty() && !options.names.iter().any(|chosen| chosen == name) {
            continue;
        }
        let valgrind = cmd!(
            shell,
            "valgrind {flags...} --callgrind-out-file={out} {program} {name}"
        );
        valgrind.quiet().ignore_stderr().run()?;
        let root = if sources == OURS {
            format!("{root}/")
        } else {
            String::new()
        };
        let sources = Regex::new(&format!("^{root}{sources}"))?;
        let text = shell.read_file(&out)?;
        let (files, functions) = executed(&text, &sources);
        ensure!(
            !files.is_empty(),
            "{name}: no file; is `walk` renamed, or built without lines?"
        );
        let found = [files.len(), functions.len()];
        let budget = most.map(|most| {
            if most == usize::MAX {
                String::new()
            } else {
                most.to_string()
            }
        });
        println!(
            "{:6} {:>8} {:10} {:>8}  {name}: {title}",
            found[0], budget[0], found[1], budget[1]
        );
        passed &= found[0] <= most[0] && found[1] <= most[1];
        for file in files.iter().filter(|_| options.list) {
            println!("    {}", sources.replace(file, ""));
            let functions = functions.iter().filter(|(home, _)| home == file);
            functions.for_each(|(_, function)| println!("        {function}"));
        }
    }
    Ok(passed || !options.check)
}

type Executed<'a> = (BTreeSet<&'a str>, BTreeSet<(&'a str, &'a str)>);

/// The files of all lines that were executed, and the functions, each with the file that it is in.
///
/// A name is written out where it is first used, and is a number behind that. The line behind `calls=`
/// has what the callee took, all others what the function took itself.
fn executed<'a>(text: &'a str, sources: &Regex) -> Executed<'a> {
    let (mut names, mut files, mut functions) = (HashMap::new(), BTreeSet::new(), BTreeSet::new());
    let (mut file, mut function, mut is_call) = ("", ("", ""), false);
    for line in text.lines() {
        let named = line
            .split_once("=(")
            .and_then(|(key, rest)| Some((key, rest.split_once(')')?)));
        if let Some((key, (number, name))) = named {
            let is_file = ["fl", "fi", "fe", "cfl", "cfi"].contains(&key);
            let kind = if is_file {
                "file"
            } else {
                key.trim_start_matches('c')
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
            // What the compiler adds has the line 0 of the root of its crate.
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

/// A name without the number that tells a recursive call.
fn plain(function: &str) -> &str {
    let plain = function.trim_end_matches(|last: char| last.is_ascii_digit());
    plain
        .strip_suffix('\'')
        .filter(|_| plain != function)
        .unwrap_or(function)
}
