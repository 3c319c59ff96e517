//! Simulates clients of servers that refuse requests and ask for pauses, and judges how many requests are refused, and
//! how much of the server is used.
//!
//! Time is paused, and everything is computed from seeds, except for the jitter of the pauses.

mod server;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tollgate_http::ResponseClass;

use self::server::{Bucket, Field, Outage, Path, Server, Slots, Window};
use self::world::{Log, Setup, run};

/// Simulates clients of servers that refuse requests and ask for pauses. Exits with 1 if a row fails, or if no row has
/// the wanted name
#[derive(Debug, Parser)]
#[command(name = "pausing", version)]
struct Args {
    /// The number of seeds
    #[arg(long, default_value_t = 30)]
    seeds: u64,

    /// A part of the names of the rows to run
    #[arg(default_value = "")]
    row: String,
}

/// A figure of a world, and the bound that the worst tenth of the seeds must keep, if there is one.
struct Figure {
    name: &'static str,
    of: fn(&Log) -> f64,
    bound: Bound,
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
    No,
}

struct Row {
    name: String,
    run: Box<dyn Fn(u64) -> Log>,
    figures: Vec<Figure>,
}

fn row<S: Server + 'static>(
    name: impl Into<String>,
    server: impl Fn() -> S + 'static,
    setup: Setup,
    figures: impl IntoIterator<Item = Figure>,
) -> Row {
    Row {
        name: name.into(),
        run: Box::new(move |seed| run(server(), setup.clone(), seed)),
        figures: figures.into_iter().collect(),
    }
}

const fn at_most(name: &'static str, bound: f64, of: fn(&Log) -> f64) -> Figure {
    Figure {
        name,
        of,
        bound: Bound::AtMost(bound),
    }
}

const fn at_least(name: &'static str, bound: f64, of: fn(&Log) -> f64) -> Figure {
    Figure {
        name,
        of,
        bound: Bound::AtLeast(bound),
    }
}

const fn printed(name: &'static str, of: fn(&Log) -> f64) -> Figure {
    Figure {
        name,
        of,
        bound: Bound::No,
    }
}

/// The refused part of the requests, in percent, without the first tenth of the time.
fn refused(log: &Log) -> f64 {
    100.0 * log.refused_part(log.seconds / 10.0, log.seconds)
}

/// The successes a second, without the first tenth of the time.
fn rate(log: &Log) -> f64 {
    log.rate(log.seconds / 10.0, log.seconds)
}

fn returned(log: &Log) -> f64 {
    log.returned.into()
}

/// The least successful caller, in percent of the mean.
fn least(log: &Log) -> f64 {
    let sum: u32 = log.by_caller.iter().sum();
    let least = log.by_caller.iter().min().copied().unwrap_or_default();
    100.0 * f64::from(least) * log.by_caller.len() as f64 / f64::from(sum.max(1))
}

/// The rate after a [blip], in percent of the rate before. It begins two seconds or ten round trips after the pause.
fn regained(log: &Log) -> f64 {
    let (blip, trips) = (start_of_blip(log.latency), 10.0 * log.latency);
    let from = blip + log.latency + 1.1 + f64::max(2.0, trips);
    100.0 * log.rate(from, log.seconds) / log.rate(log.latency, blip)
}

/// Ten round trips come before it.
fn start_of_blip(latency: f64) -> f64 {
    10.0 + 11.0 * latency
}

fn blip(latency: f64, after: u16) -> impl Fn() -> Outage {
    let from = start_of_blip(latency);
    move || Outage {
        from,
        to: from + 0.05 + latency / 10.0,
        refusal: (429, ResponseClass::Refused(None)),
        after,
        latency,
    }
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for callers in [1, 8, 64, 1000] {
        for latency in [0.1, 5.0, 15.0] {
            let seconds = 40.0 + 50.0 * latency;
            rows.push(row(
                format!("one refusal without a field: {callers} callers, heads after {latency} s"),
                blip(latency, 200),
                Setup::closed(callers, seconds),
                [
                    at_least("of the former rate %", 90.0, regained),
                    printed("returned", returned),
                ],
            ));
        }
    }
    rows.push(row(
        "one refusal without a field, then only 404: 64 callers",
        blip(0.1, 404),
        Setup::closed(64, 45.0),
        [at_least("of the former rate %", 90.0, regained)],
    ));
    for field in [Field::No, Field::Ceil, Field::Floor] {
        for rate_of_server in [5.0, 20.0, 100.0, 400.0] {
            let used: fn(&Log) -> f64 = |log| 100.0 * rate(log) / log.capacity;
            let setup = Setup {
                capacity: rate_of_server,
                ..Setup::closed(64, 200.0)
            };
            rows.push(row(
                format!("bucket of {rate_of_server}/s, burst of a second, {field}: 64 callers"),
                move || Bucket::new(rate_of_server, rate_of_server, field, 0.1),
                setup,
                [
                    at_most("refused %", 21.0, refused),
                    at_least("used %", 82.0, used),
                    at_least("least caller %", 90.0, least),
                    printed("returned", returned),
                ],
            ));
        }
        for rate_of_server in [5.0, 20.0] {
            let used: fn(&Log) -> f64 = |log| 100.0 * rate(log) / log.capacity;
            rows.push(row(
                format!("bucket of {rate_of_server}/s without a burst, {field}: 64 callers"),
                move || Bucket::new(rate_of_server, 1.0, field, 0.1),
                Setup {
                    capacity: rate_of_server,
                    ..Setup::closed(64, 200.0)
                },
                [printed("refused %", refused), printed("used %", used)],
            ));
        }
        for (callers, slots) in [(64, 8), (1000, 8), (1000, 64)] {
            let setup = Setup {
                slots: Some(slots),
                ..Setup::closed(callers, 120.0)
            };
            rows.push(row(
                format!("bucket of 20/s behind {slots} slots, {field}: {callers} callers"),
                move || Bucket::new(20.0, 20.0, field, 0.1),
                setup,
                [
                    at_most("refused %", 21.0, refused),
                    at_least("a second", 16.0, rate),
                    if callers == 64 {
                        at_least("least caller %", 90.0, least)
                    } else {
                        printed("least caller %", least)
                    },
                ],
            ));
        }
        for callers in [64, 1000] {
            rows.push(row(
                format!("{callers} requests in flight at 20/s, burst of a second, {field}"),
                move || Bucket::new(20.0, 20.0, field, 0.1),
                Setup {
                    once: true,
                    ..Setup::closed(callers, 150.0)
                },
                [
                    at_most("returned", 10.0, returned),
                    printed("refused locally", |log| log.local.into()),
                    printed("refusals", |log| log.refused.len() as f64),
                    printed("seconds to the last success", |log| {
                        log.succeeded.iter().copied().fold(0.0, f64::max)
                    }),
                ],
            ));
        }
        rows.push(row(
            format!("window of 500 a minute, {field}: 64 callers"),
            move || Window::new(500, 60.0, field, 0.1),
            Setup {
                capacity: 500.0 / 60.0,
                ..Setup::closed(64, 600.0)
            },
            [
                at_most("refused %", 21.0, refused),
                at_least("used %", 84.0, |log| 100.0 * rate(log) / log.capacity),
            ],
        ));
    }
    for latency in [0.1, 2.0] {
        rows.push(row(
            format!("10 at once, answers after {latency} s: 64 callers"),
            move || Slots {
                count: 10,
                busy: 0,
                latency,
            },
            Setup {
                capacity: 10.0 / latency,
                ..Setup::closed(64, 400.0)
            },
            [
                at_most("refused %", 21.0, refused),
                printed("used %", |log| 100.0 * rate(log) / log.capacity),
            ],
        ));
    }
    for asked in [None, Some(Duration::from_secs(1))] {
        let outage = move || Outage {
            from: 10.0,
            to: 70.0,
            refusal: (429, ResponseClass::Refused(asked)),
            after: 200,
            latency: 0.1,
        };
        let sent: fn(&Log) -> f64 = |log| Log::count(&log.sent, 10.2, 70.0) / 59.8;
        rows.push(row(
            format!(
                "a minute of refusals, {}: 200 calls a second",
                field_of(asked)
            ),
            outage,
            Setup {
                open: 200.0,
                ..Setup::closed(0, 200.0)
            },
            [
                at_most("sent a second in it", 3.0, sent),
                at_least("a second later", 190.0, |log| log.rate(140.0, 200.0)),
            ],
        ));
    }
    rows.push(row(
        "one path of ten answers 503 without a field: 64 callers",
        || Path {
            share: 0.1,
            path: Outage {
                from: 0.0,
                to: 1e9,
                refusal: (503, ResponseClass::RefusedAlone),
                after: 200,
                latency: 0.1,
            },
            latency: 0.1,
        },
        Setup::closed(64, 200.0),
        [
            printed("a second", rate),
            printed("returned", returned),
            printed("refused %", refused),
        ],
    ));
    for field in [Field::No, Field::Ceil] {
        rows.push(row(
            format!("a path of 30 a minute that is an origin of its own, {field}: 64 callers"),
            move || Path {
                share: 0.1,
                path: Window::new(30, 60.0, field, 0.1),
                latency: 0.1,
            },
            Setup {
                apart: 0.1,
                open: 100.0,
                ..Setup::closed(0, 300.0)
            },
            // Nine of ten calls go to the other paths.
            [at_least("a second", 88.0, rate)],
        ));
    }
    rows.push(row(
        "half of the calls are dropped: one refusal, 64 callers",
        blip(0.1, 200),
        Setup {
            cancelled: 0.5,
            ..Setup::closed(64, 60.0)
        },
        [at_least("of the former rate %", 90.0, regained)],
    ));
    rows.push(row(
        "half of the calls are dropped: one refusal, heads after 15 s, 64 callers",
        blip(15.0, 200),
        Setup {
            cancelled: 0.5,
            ..Setup::closed(64, 800.0)
        },
        [at_least("of the former rate %", 90.0, regained)],
    ));
    rows
}

fn field_of(asked: Option<Duration>) -> &'static str {
    match asked {
        None => "no field",
        Some(_) => "a field of 1 s",
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut rows = rows();
    rows.retain(|row| row.name.contains(&args.row));
    let mut failed = rows.is_empty();
    for row in rows {
        let logs: Vec<Log> = (1..=args.seeds).map(|seed| (row.run)(seed)).collect();
        let mut passed = true;
        let mut text = Vec::new();
        for Figure { name, of, bound } in &row.figures {
            let mut figures: Vec<f64> = logs.iter().map(of).collect();
            figures.sort_by(f64::total_cmp);
            if let Bound::AtMost(_) = bound {
                figures.reverse();
            }
            let mean = figures.iter().sum::<f64>() / figures.len() as f64;
            let worst = figures[figures.len() / 10];
            // NaN must fail too.
            let (keeps, wanted) = match *bound {
                Bound::AtMost(most) => (worst <= most, format!(" (≤{most})")),
                Bound::AtLeast(least) => (worst >= least, format!(" (≥{least})")),
                Bound::No => (true, String::new()),
            };
            passed &= keeps;
            text.push(format!("{name} {mean:.1}, worst tenth {worst:.1}{wanted}"));
        }
        failed |= !passed;
        let verdict = if passed { "PASS" } else { "FAIL" };
        println!("{verdict}  {:<75} {}", row.name, text.join("; "));
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
