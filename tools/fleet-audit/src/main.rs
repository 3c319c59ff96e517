//! Audits a fleet on one machine: several processes share limits, through faults, and an auditor counts
//! their admissions.
//!
//! Every admission has the tick of the server that charged it. The auditor compares all admissions,
//! in every window between two of them, with the promise of the algorithm. For leases, it checks the
//! holders at every instant. It also checks the number of admissions while the store could answer. It ends
//! with an error if there were more than promised, or too few.

#![forbid(unsafe_code)]

mod faults;
mod fleet;
mod leases;
mod node;
mod options;
mod rates;
mod recount;
mod report;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use redis_on_loopback::Server;
use redis_on_loopback::proxy::Proxy;
use tollgate::Algorithm;
use tollgate_redis::RateLimiter;

use crate::faults::{Fault, Happened, Scene};
use crate::faults::{Outage, Uptime};
use crate::fleet::{Fleet, Said};
use crate::fleet::{micros, now};
use crate::options::{Options, POLL};
use crate::report::Report;

#[derive(Parser)]
#[command(about)]
struct Cli {
    #[command(subcommand)]
    command: Option<Verb>,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum Verb {
    /// One process of the fleet, which the auditor starts.
    #[command(hide = true)]
    Node {
        /// The server.
        #[arg(long)]
        redis: String,
        #[command(flatten)]
        options: Options,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let outcome = runtime.map_err(Into::into).and_then(|runtime| {
        runtime.block_on(async {
            match cli.command {
                Some(Verb::Node { redis, options }) => {
                    node::run(&redis, &options).await.map(|()| true)
                }
                None => run(&cli.options).await,
            }
        })
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether all promises were kept.
async fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    let mut server = Server::start();
    let proxy = Proxy::start(server.port()).await;
    let address = match options.faults {
        Some(_) => proxy.address(),
        None => server.address(),
    };
    let mut fleet = Fleet::start(address, options.nodes).await?;
    let lease = options.lease.map_or(Duration::ZERO, |_| options.ttl());
    let begin = now();
    let mut end = begin + options.millis * 1000;
    let mut happened = Happened::default();
    if let Some(faults) = &options.faults {
        // The end of all faults is not known yet.
        fleet.go_on(u64::MAX).await;
        let scene = Scene {
            server: &mut server,
            proxy: &proxy,
            fleet: &mut fleet,
            lease,
        };
        happened = faults::make(scene, faults, end).await?;
        end = now();
    }
    fleet.go_on(end).await;
    let said = fleet.end().await?;
    // The first use of a server is treated as if it had lost all data before.
    happened.outages.push(Outage {
        from: begin,
        to: begin + micros(lease),
    });
    let uptime = Uptime::new(begin, end, &happened.outages);
    println!("{happened}");
    Ok(match options.lease {
        Some(permits) => audit_leases(permits, &said, &uptime),
        None => {
            let rates = audit_rates(options, &said, &happened, &uptime)?;
            let ledger =
                !options.several || audit_ledger(&server, &said, &happened, options).await?;
            rates && ledger
        }
    })
}

fn audit_rates(
    options: &Options,
    said: &[Said],
    happened: &Happened,
    uptime: &Uptime,
) -> Result<bool, String> {
    let mut ticks = admitted(said);
    ticks.sort_unstable();
    let ahead = |report: &&Report| matches!(report, Report::Admitted { ahead: true, .. });
    println!(
        "{} admitted, {} of them out of what was taken ahead, {}",
        ticks.len(),
        reports(said).filter(ahead).count(),
        failures(said, uptime)
    );
    let bounds = options.bounds()?;
    let mut is_kept = true;
    let reserved = if happened.losses.is_empty() {
        0
    } else {
        options.reserved()
    };
    for bound in &bounds {
        let beyond = options.beyond() + reserved;
        let kept = rates::Kept::of(&ticks, *bound, beyond, &happened.losses);
        println!("{kept}");
        is_kept &= kept.is_kept();
    }
    let used = rates::used(&ticks, &bounds, options.demand(), uptime);
    println!("{used}");
    Ok(is_kept && used.is_enough())
}

fn audit_leases(permits: usize, said: &[Said], uptime: &Uptime) -> bool {
    let held: Vec<_> = said
        .iter()
        .flat_map(|said| leases::held(&said.reports, said.ended))
        .collect();
    let lost = |report: &&Report| matches!(report, Report::Left { lost: true, .. });
    let lost = reports(said).filter(lost).count();
    println!(
        "{} leases, {lost} lost, {}",
        held.len(),
        failures(said, uptime)
    );
    let kept = leases::Kept::of(&held, permits);
    println!("{kept}");
    let used = leases::used(&held, permits, micros(POLL), uptime);
    println!("{used}");
    kept.is_kept() && used.is_enough()
}

/// Checks the ledger limit, which counts along with the others: it must have counted all
/// admissions, and beyond that at most the uncertain ones.
async fn audit_ledger(
    server: &Server,
    said: &[Said],
    happened: &Happened,
    options: &Options,
) -> Result<bool, Box<dyn Error>> {
    let store = server.store().deadline(Duration::from_secs(5));
    let ledger =
        RateLimiter::new(&store, node::LEDGER, Options::ledger()).algorithm(Algorithm::FixedWindow);
    let decision = ledger.peek(0).await?;
    let counted = decision.limit - decision.remaining;
    let all = admitted(said).len() as u64;
    let perhaps = |report: &&Report| matches!(report, Report::Failed { perhaps: true, .. });
    let perhaps = reports(said).filter(perhaps).count();
    // A killed process does not report the results of its calls.
    let killed = happened.count(Fault::Node) * options.tasks;
    let most = all + (perhaps + killed) as u64;
    let least = if happened.losses.is_empty() { all } else { 0 };
    let is_even = (least..=most).contains(&counted);
    println!(
        "together: {counted} were counted, of {least} to {most}: {}",
        if is_even {
            "kept"
        } else {
            "NOT KEPT: not all limits counted the same"
        }
    );
    Ok(is_even)
}

fn reports(said: &[Said]) -> impl Iterator<Item = &Report> {
    said.iter().flat_map(|said| &said.reports)
}

fn admitted(said: &[Said]) -> Vec<u64> {
    let ticks = reports(said).filter_map(|report| match report {
        Report::Admitted { tick, .. } => Some(*tick),
        _ => None,
    });
    ticks.collect()
}

/// Summarizes how many calls failed, and how they failed while the store could answer.
fn failures(said: &[Said], uptime: &Uptime) -> String {
    let (mut all, mut meanwhile) = (0, BTreeMap::new());
    for report in reports(said) {
        if let Report::Failed { at, how, .. } = report {
            all += 1;
            if uptime.contains(*at) {
                *meanwhile.entry(how).or_insert(0) += 1;
            }
        }
    }
    let meanwhile: Vec<_> = meanwhile
        .iter()
        .map(|(how, count)| format!("{count} {how}"))
        .collect();
    let meanwhile = if meanwhile.is_empty() {
        "none".to_owned()
    } else {
        meanwhile.join(", ")
    };
    format!("{all} failed; while the store could answer {meanwhile}")
}
