//! The rows of BENCHMARKS.md: the operations that users decide by, each beside the peers that they would use instead.
//!
//! `ratios --page` prints them as lines of its table, to which `memory --page` adds the bytes of waiters and of keys.
//! criterion's `groups` are the same rows.

use std::process::Command;

use ready_paths::paths::ready_paths;

use crate::THEMES;
use crate::harness::{Comparison, Contender, Options, Row, Spread};

/// A row and one of its peers; and why, where ours is slower.
const LINES: &str = "
try_acquire + drop | tokio
acquire ready + drop | tokio
acquire_cancellable ready + drop | tokio
two threads, limit 8: try | tokio
two threads, limit 8: acquire | tokio
64 tasks on 2 workers, limit 8 | tokio | without work the winner is whoever runs on one core
64 tasks on 2 workers, limit 8 | futures-intrusive | without work the winner is whoever runs on one core
64 tasks on 2 workers, limit 8, 1 µs of work | tokio
64 tasks on 2 workers, limit 8, 1 µs of work | futures-intrusive
64 tasks on 2 workers, limit 8, 10 µs of work | tokio
64 tasks on 2 workers, limit 8, 10 µs of work | futures-intrusive
10,000 waiters: enqueue | tokio
10,000 waiters: drain | tokio
10,000 waiters: drain | futures-intrusive | its waiters are linked inside of pinned futures, with unsafe code
cancel 10,000: first-in first | tokio | its waiters are linked inside of pinned futures, ours are numbered slots
cancel 10,000: random | tokio | its waiters are linked inside of pinned futures, ours are numbered slots
rate: decision allowed | governor | every quota is exact: two products of 128 bits
rate: decision allowed | leaky-bucket
rate: decision denied | governor | a refusal reads the word twice
rate: decision denied | leaky-bucket
rate: acquire ready | governor | every quota is exact, and a charge has five words
rate: acquire ready | leaky-bucket
two threads, rate: decision allowed | governor
two threads, rate: decision allowed | leaky-bucket
two threads, rate: decision denied | governor | a refusal reads the word twice
waiters released at 1,000/s | governor
waiters released at 1,000/s | leaky-bucket
waiters released at 100,000/s | governor
waiters released at 100,000/s | leaky-bucket
keyed: 1k u64, uniform | governor
keyed: 100k u64, uniform | governor | memory: an entry is a key and 16 bytes, governor's a key and 8
keyed: 1M u64, uniform | governor | memory: an entry is a key and 16 bytes, governor's a key and 8
keyed: first decision of 1,000 keys | governor | the map is bounded: a key is counted, and looks for one that is idle
keyed: first decision of 100,000 keys | governor | the map is bounded: a key is counted, and looks for one that is idle
keyed: first decision of 1,000,000 keys | governor | the map is bounded: a key is counted, and looks for one that is idle
fair: acquire ready + drop | priority-semaphore | a handle of the class and its count: four locked operations
fair: 10,000 waiters in 100 classes: enqueue | priority-semaphore | a place in a map, the rank of the class, and the clock
fair: 10,000 waiters in 100 classes: hand-off | priority-semaphore | three pairs of locks, and the ranks of two classes
http: a request by client | tower_governor | the layer's future holds the permit to the end of the body, and could wait
http: a request with a slot | tower ConcurrencyLimit | the permit lives as long as the body, not as the future
bytes: read 64 KiB, a limit that never binds | async-speed-limit
bytes: read 1 KiB, a limit that never binds | async-speed-limit
bytes: read 1 KiB, unlimited | async-speed-limit | each read makes a charge, and settles it
adaptive, measured: acquire ready + end | congestion-limiter
redis: decision allowed | the plainest script | one script for every quota and cost, and exact
redis: decision denied | the plainest script | the same, and the reply says when to come again
";

/// Returns the rows, with the peers of the page alone, by theme.
///
/// # Panics
///
/// Panics if a line names no row, or if nobody counts the instructions of a row on one thread.
pub fn themes() -> Vec<(&'static str, Vec<Row>)> {
    let mut left: Vec<[&str; 3]> = LINES.trim().lines().map(cells).collect();
    let mut themes = THEMES.map(|(theme, rows)| (theme, rows()));
    for (_, rows) in &mut themes {
        for row in &mut *rows {
            let all = std::mem::take(&mut row.contenders).into_iter();
            let of_page = |(at, contender): (usize, Contender)| {
                let is_line =
                    |[name, peer, _]: &[&str; 3]| *name == row.name && *peer == contender.name;
                match left.iter().position(is_line) {
                    Some(line) => Some(contender.explained(left.remove(line)[2])),
                    None => (at == 0).then_some(contender),
                }
            };
            row.contenders = all.enumerate().filter_map(of_page).collect();
        }
        rows.retain(|row| row.contenders.len() > 1);
    }
    assert!(left.is_empty(), "no row has these names: {left:?}");
    let counted = ready_paths();
    for row in themes.iter().flat_map(|(_, rows)| rows) {
        let is_counted = counted.iter().any(|path| path.name == row.name);
        let is_ready = row.contenders[0].counted == Some(1);
        assert!(is_counted || !is_ready, "{} is no ready path", row.name);
    }
    themes.into()
}

/// Returns the name of a row, that of a peer, and why ours may be slower.
fn cells(line: &'static str) -> [&'static str; 3] {
    let mut cells = line.split(" | ");
    [(); 3].map(|()| cells.next().unwrap_or_default())
}

/// The headings of the page's table.
const HEADINGS: &str =
    "| Operation | Beside | Ratio | 10 to 90 % | Result |\n|---|---|---|---|---|";

/// Measures the selected rows and prints the page's table.
///
/// There are several passes over all rows, because a shared machine changes within minutes, and because the places of
/// contenders in memory are chosen anew in each.
pub fn print(options: &Options) {
    let has_redis = Command::new("redis-server").arg("-v").output().is_ok();
    if !has_redis {
        eprintln!("redis-server is not installed: its rows are missing");
    }
    let themes = themes().into_iter();
    let rows = themes.filter(|(theme, _)| has_redis || *theme != "redis");
    let rows = rows.flat_map(|(_, rows)| rows);
    let rows: Vec<_> = rows.filter(|row| options.wants(&row.name)).collect();
    let mut nanos = vec![Vec::new(); rows.len()];
    for pass in 1..=options.runs {
        for (row, nanos) in rows.iter().zip(&mut nanos) {
            eprintln!("measuring: {}, pass {pass}", row.name);
            let rounds = row.time(options);
            nanos.resize(rounds.len(), Vec::new());
            nanos
                .iter_mut()
                .zip(rounds)
                .for_each(|(all, rounds)| all.extend(rounds));
        }
    }
    println!("{HEADINGS}");
    for (row, nanos) in rows.iter().zip(&nanos) {
        for one in row.compare(nanos) {
            let shares = row.rate.map_or(String::new(), |rate| {
                let [ours, theirs] = [one.ours, one.theirs].map(|nanos| 1e11 / nanos / rate);
                format!(": {theirs:.1} % of the rate; ours {ours:.1} %")
            });
            println!("{}", line(&row.name, &one, &shares));
        }
    }
}

/// Returns a line of the table.
fn line(row: &str, one: &Comparison, remark: &str) -> String {
    let (
        peer,
        Spread {
            median, p10, p90, ..
        },
    ) = (&one.peer, one.ratio);
    let result = match one.result() {
        "lost" if one.why.is_empty() => "**lost**".to_owned(),
        "lost" => format!("**lost**: {}", one.why),
        other => other.to_owned(),
    };
    format!("| {row} | {peer}{remark} | {median:.2} | {p10:.2} to {p90:.2} | {result} |")
}

/// Prints the line of a figure in bytes, which is counted once.
pub fn print_bytes(options: &Options, row: &str, peer: &str, bytes: [f64; 2], why: &'static str) {
    let [ours, theirs] = bytes;
    if !options.wants(row) {
        return;
    }
    let comparison = Comparison {
        peer: peer.to_owned(),
        ours,
        theirs,
        ratio: Spread::of([ours / theirs]),
        target: None,
        why,
    };
    let remark = format!(": {theirs:.1} bytes; ours {ours:.1}");
    println!("{}", line(row, &comparison, &remark));
}
