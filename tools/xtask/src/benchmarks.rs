//! Measures the table of BENCHMARKS.md, compares it with the one that stands there, and can replace it.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use regex::Regex;
use xshell::{Shell, cmd};

use crate::workspace::{metadata, run};

const PAGE: &str = "BENCHMARKS.md";

/// The beginning of the table.
const HEADINGS: &str = "| Operation |";

/// The beginning of the line above it, which says where it was measured.
const MEASURED: &str = "Measured on ";

/// The peers of the table, whose versions are part of it.
const PEERS: [&str; 10] = [
    "tokio",
    "futures-intrusive",
    "governor",
    "leaky-bucket",
    "priority-semaphore",
    "tower_governor",
    "tower",
    "async-speed-limit",
    "congestion-limiter",
    "redis",
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// A part of the names of the rows to measure
    #[arg(default_value = "", conflicts_with = "write")]
    filter: String,
    /// Take fewer and shorter rounds
    #[arg(long)]
    quick: bool,
    /// Replace the table in BENCHMARKS.md
    #[arg(long)]
    write: bool,
}

pub(crate) fn benchmarks(shell: &Shell, options: &Options) -> Result<bool> {
    let [bench, package] = ["bench", "--package=tollgate-bench"];
    // Otherwise the builds would be part of the load.
    let programs = ["--bench=ratios", "--bench=memory"];
    run(cmd!(
        shell,
        "cargo {bench} {package} {programs...} --no-run"
    ))?;
    let quick = options.quick.then_some("--quick");
    let filter = &options.filter;
    let before = load(shell)?;
    let ratios = ["--bench=ratios", "--", "--page", filter];
    let ratios = cmd!(shell, "cargo {bench} {package} {ratios...} {quick...}").read()?;
    let after = load(shell)?;
    let memory = ["--bench=memory", "--", "--page", filter];
    let memory = cmd!(shell, "cargo {bench} {package} {memory...}").read()?;
    let is_line = |line: &&str| line.starts_with('|');
    let lines = ratios.lines().chain(memory.lines()).filter(is_line);
    let table = lines.collect::<Vec<_>>().join("\n");
    let measured = measured(shell, &before, &after)?;
    let page = shell.read_file(PAGE)?;
    println!("{measured}\n\n{table}\n");
    print_changes(&page, &table)?;
    if options.write {
        shell.write_file(PAGE, with_table(&page, &measured, &table)?)?;
    }
    Ok(true)
}

/// Returns the average number of running threads in the last minute.
fn load(shell: &Shell) -> Result<String> {
    let loads = shell.read_file("/proc/loadavg")?;
    Ok(loads.split(' ').next().unwrap_or_default().to_owned())
}

/// Says where and when the table was measured.
fn measured(shell: &Shell, before: &str, after: &str) -> Result<String> {
    let processors = shell.read_file("/proc/cpuinfo")?;
    let models = processors
        .lines()
        .filter_map(|line| line.strip_prefix("model name"));
    let models: Vec<_> = models.map(|it| it.trim_matches([' ', '\t', ':'])).collect();
    let (count, model) = (models.len(), models.first().unwrap_or(&"unknown"));
    let rustc = cmd!(shell, "rustc --version").read()?;
    let rustc = rustc.split(' ').nth(1).context("a version")?;
    let today = cmd!(shell, "date +%F").read()?;
    let packages = metadata(shell, &["--all-features"])?.packages;
    let mut versions = String::new();
    for peer in PEERS {
        let all = packages.iter().filter(|package| *package.name == *peer);
        let newest = all.map(|package| &package.version).max();
        let newest = newest.with_context(|| format!("{peer} is no dependency"))?;
        write!(versions, ", {peer} {newest}")?;
    }
    Ok(format!(
        "{MEASURED}{count} × {model}, load {before} before and {after} after, rustc {rustc}{versions}; {today}."
    ))
}

/// A line of the table.
#[derive(PartialEq)]
struct Line<'a> {
    name: String,
    median: f64,
    spread: [f64; 2],
    result: &'a str,
}

/// Returns the lines of a table.
fn lines(text: &str) -> Result<Vec<Line<'_>>> {
    let form = Regex::new(r"^\| (.*?) \| (.*?) \| ([\d.]+) \| ([\d.]+) to ([\d.]+) \| (.*) \|$")?;
    let mut found = Vec::new();
    for captures in text.lines().filter_map(|line| form.captures(line)) {
        let (_, [row, beside, median, low, high, result]) = captures.extract();
        // The figures of this run may follow the name of the peer.
        let peer = beside.split(": ").next().unwrap_or_default();
        let name = format!("{row}, beside {peer}");
        found.push(Line {
            name,
            median: median.parse()?,
            spread: [low.parse()?, high.parse()?],
            result: result.split(':').next().unwrap_or_default(),
        });
    }
    Ok(found)
}

/// Prints the rows that changed by more than their noise: whose ranges have nothing in common.
fn print_changes(page: &str, table: &str) -> Result<()> {
    let former = lines(page)?;
    let mut changed = Vec::new();
    for now in lines(table)? {
        let Some(then) = former.iter().find(|then| then.name == now.name) else {
            println!("New: {}", now.name);
            continue;
        };
        let ([low, high], [former_low, former_high]) = (now.spread, then.spread);
        if low > former_high || high < former_low {
            let (from, to) = (then.median, now.median);
            changed.push(format!(
                "{}: {from:.2}, now {to:.2} ({})",
                now.name, now.result
            ));
        }
    }
    match changed[..] {
        [] => println!("No row changed by more than its noise since {PAGE} was written."),
        _ => println!("Changed by more than their noise:\n{}", changed.join("\n")),
    }
    Ok(())
}

/// Returns the page with another table.
fn with_table(page: &str, measured: &str, table: &str) -> Result<String> {
    let mut kept: Vec<_> = page.lines().collect();
    let begin = kept.iter().position(|line| line.starts_with(HEADINGS));
    let begin = begin.context("the page has a table")?;
    let length = kept[begin..]
        .iter()
        .take_while(|line| line.starts_with('|'));
    let end = begin + length.count();
    kept.splice(begin..end, table.lines());
    let place = kept.iter_mut().find(|line| line.starts_with(MEASURED));
    *place.context("the page says where it was measured")? = measured;
    let text = kept.join("\n") + "\n";
    ensure!(
        text.lines().count() <= 70,
        "the page is longer than 70 lines"
    );
    Ok(text)
}
