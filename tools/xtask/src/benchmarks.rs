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

/// What stands in the place of a peer and has no version.
const OTHERS: [&str; 1] = ["the plainest script"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// A part of the names of the rows to measure
    #[arg(default_value = "", conflicts_with = "write")]
    filter: String,
    /// Take fewer and shorter rounds
    #[arg(long, conflicts_with = "write")]
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
    let table = ratios.lines().chain(memory.lines()).filter(is_line);
    let table = table.collect::<Vec<_>>().join("\n");
    let measured = measured(shell, &before, &after)?;
    let page = shell.read_file(PAGE)?;
    println!("{measured}\n\n{table}\n");
    let found = lines(&table)?;
    ensure!(!found.is_empty(), "no row has {filter:?} in its name");
    for &Line { peer, ref name, .. } in &found {
        let is_named = OTHERS.contains(&peer) || PEERS.iter().any(|one| peer.starts_with(one));
        ensure!(
            is_named,
            "{name}: the version of the peer is missing from PEERS"
        );
    }
    print_changes(&page, &found, &measured, filter)?;
    if options.write {
        let redis = "redis-server is needed for all rows";
        ensure!(
            found.iter().any(|line| line.name.starts_with("redis: ")),
            redis
        );
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
        let name = if peer == "redis" { "redis-rs" } else { peer };
        write!(versions, ", {name} {newest}")?;
    }
    Ok(format!(
        "{MEASURED}{count} × {model}, load {before} before and {after} after, rustc {rustc}{versions}; {today}."
    ))
}

/// A line of the table.
struct Line<'a> {
    name: String,
    peer: &'a str,
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
            peer,
            median: median.parse()?,
            spread: [low.parse()?, high.parse()?],
            result: result.split(':').next().unwrap_or_default(),
        });
    }
    Ok(found)
}

/// Prints the rows that changed by more than their noise: whose ranges have nothing in common.
fn print_changes(page: &str, found: &[Line<'_>], measured: &str, filter: &str) -> Result<()> {
    let former = lines(page)?;
    for then in former.iter().filter(|then| then.name.contains(filter)) {
        if found.iter().all(|now| now.name != then.name) {
            println!("Not measured: {}", then.name);
        }
    }
    let mut changed = 0;
    for now in found {
        let Some(then) = former.iter().find(|then| then.name == now.name) else {
            println!("New: {}", now.name);
            continue;
        };
        let ([low, high], [former_low, former_high]) = (now.spread, then.spread);
        if low > former_high || high < former_low {
            changed += 1;
            let (name, from, to) = (&now.name, then.median, now.median);
            println!(
                "Changed by more than its noise: {name}: {from:.2}, now {to:.2} ({})",
                now.result
            );
        }
    }
    println!(
        "Rows that changed by more than their noise: {changed} of {}",
        found.len()
    );
    let place = |text: &str| text.split(", load").next().map(String::from);
    let then = page.lines().find(|line| line.starts_with(MEASURED));
    if then.and_then(place) != place(measured) {
        println!("{PAGE} was measured on another machine, where ratios differ");
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
