//! The rounds: the servers take turns under load, and the results are compared.

use std::error::Error;
use std::iter::Sum;
use std::time::{Duration, Instant};
use std::{fs, io};

use tollgate::keyed::WhenFull;
use tollgate_bench::harness::{Spread, Table};
use tollgate_tower::IpNet;

use super::server::{Admitted, Limited, QUOTA, tasks_become};
use super::wrk::{Load, Measured, Wrk};
use super::{Args, Checks};

/// The number of networks of the baseline.
const FEW: u32 = 1000;
/// The target: the 99th percentile with many networks over that with few.
const P99_RATIO: f64 = 2.0;
/// The bytes that connections and the allocator may keep besides the map.
const SLACK: u64 = 16 << 20;

const HEADINGS: &str = "networks | when full | requests | requests/s | networks seen | admitted \
    | most of one | keys | grown MB | p50 ms | p99 ms";

/// A server, and the results of its rounds.
struct Case {
    networks: u32,
    when_full: WhenFull,
    limited: Limited,
    rounds: Vec<Round>,
}

struct Round {
    measured: Measured,
    admitted: Admitted,
    allowed: u64,
    keys: usize,
    /// The growth of the resident set, in bytes.
    grown: i64,
}

impl Case {
    async fn start(args: &Args, networks: u32, when_full: WhenFull) -> std::io::Result<Self> {
        Ok(Self {
            networks,
            when_full,
            limited: Limited::start(networks, args.max_keys, when_full).await?,
            rounds: Vec::new(),
        })
    }

    /// Loads the server once, and returns when all its connections are closed. `servers` is the
    /// number of running servers.
    async fn load(&mut self, args: &Args, servers: usize) -> Result<(), Box<dyn Error>> {
        let Limited {
            server,
            keyed,
            tally,
        } = &self.limited;
        let load = Load {
            networks: self.networks,
            connections: args.connections,
            position: self.rounds.last().map_or(0, |last| last.measured.position),
        };
        let before = resident()?;
        // No request is in transit at either end, so all of these are in between.
        let begun = Instant::now();
        let wrk = Wrk::start(server.address, &load, Duration::from_secs(args.seconds))?;
        let measured = wrk.measured().await?;
        tasks_become(servers).await?;
        let intervals = begun.elapsed().as_nanos() * u128::from(QUOTA.count());
        let earned = intervals / QUOTA.period().as_nanos();
        let allowed = QUOTA.max_burst() + u64::try_from(earned)?;
        let grown = resident()?.cast_signed() - before.cast_signed();
        let (admitted, keys) = (tally.take_admitted(allowed), keyed.len());
        self.rounds.push(Round {
            measured,
            admitted,
            allowed,
            keys,
            grown,
        });
        Ok(())
    }

    fn median(&self, figure: impl Fn(&Measured) -> u64) -> f64 {
        let rounds = self.rounds.iter();
        Spread::of(rounds.map(|round| figure(&round.measured) as f64)).median
    }

    fn p99(&self) -> f64 {
        self.median(|one| one.p99)
    }

    fn grown(&self) -> i64 {
        self.sum(|round| round.grown)
    }

    /// Networks that were admitted too often, over all rounds.
    fn above(&self) -> u64 {
        self.sum(|round| round.admitted.above)
    }

    fn sum<T: Sum>(&self, figure: impl Fn(&Round) -> T) -> T {
        self.rounds.iter().map(figure).sum()
    }

    fn most_keys(&self) -> usize {
        let keys = self.rounds.iter().map(|round| round.keys);
        keys.max().unwrap_or(0)
    }

    fn line(&self) -> String {
        let most = self.rounds.iter().max_by_key(|round| round.admitted.most);
        let most = most.map(|round| format!("{} of {}", round.admitted.most, round.allowed));
        let (networks, when_full, requests) = (
            self.networks,
            self.when_full,
            self.sum(|round| round.measured.requests),
        );
        let per_second = self.median(|one| one.requests * 1_000_000 / one.duration.max(1));
        // They come in an order without repetition, one round after the other.
        let position = self.rounds.last().map_or(0, |last| last.measured.position);
        let seen = position.min(networks.into());
        let admitted = self.sum(|round| round.admitted.in_all);
        let (most, keys, grown) = (most.unwrap_or_default(), self.most_keys(), self.grown());
        let [p50, p99] = [self.median(|one| one.median), self.p99()].map(|micros| micros / 1e3);
        let grown = megabytes(grown);
        format!(
            "{networks} | {when_full:?} | {requests} | {per_second:.0} | {seen} | {admitted} \
             | {most} | {keys} | {grown} | {p50:.2} | {p99:.2}"
        )
    }
}

fn megabytes(bytes: i64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// Returns the bytes that a map may take according to its documentation.
fn bytes_of_map(max_keys: u32) -> u64 {
    let slot = (size_of::<IpNet>() + 16).next_multiple_of(8) + 1;
    u64::from(max_keys) * slot as u64 * 32 / 7
}

/// Runs all rounds, prints the table, and checks the results.
pub(super) async fn run(args: &Args, checks: &mut Checks) -> Result<(), Box<dyn Error>> {
    let mut cases = [
        Case::start(args, FEW, WhenFull::Reject).await?,
        Case::start(args, args.networks, WhenFull::Reject).await?,
        Case::start(args, args.networks, WhenFull::Evict).await?,
    ];
    let servers = cases.len();
    for round in 0..args.rounds {
        for case in &mut cases {
            let (networks, when_full) = (case.networks, case.when_full);
            eprintln!("round {round}: {networks} networks, {when_full:?}");
            case.load(args, servers).await?;
        }
    }
    let mut table = Table::new(HEADINGS);
    for case in &cases {
        table.push(case.line());
    }
    table.print(false);
    check(args.max_keys, &cases, checks);
    drop(cases);
    tasks_become(0).await?;
    Ok(())
}

fn check(max_keys: u32, cases: &[Case; 3], checks: &mut Checks) {
    let [few, many, evicting] = cases;
    let failed = cases
        .iter()
        .map(|case| case.sum(|round| round.measured.failed));
    let failed: u64 = failed.sum();
    let keys = cases.iter().map(Case::most_keys).max().unwrap_or(0);
    let above = few.above() + many.above();
    checks.promise(
        above == 0,
        "no network was admitted above its quota (Reject)",
    );
    let text = format!("no map keeps more than {max_keys} keys: {keys} at most");
    checks.promise(keys <= max_keys as usize, &text);
    let text = format!("{failed} connections or requests failed");
    checks.figure(failed == 0, &text);
    let bound = (bytes_of_map(max_keys) + SLACK).cast_signed();
    for case in [many, evicting] {
        let (grown, when_full) = (case.grown(), case.when_full);
        let [more, most] = [grown, bound].map(megabytes);
        let text = format!("memory, {when_full:?}: {more} MB more, at most {most} MB");
        checks.figure(grown <= bound, &text);
        let ratio = case.p99() / few.p99().max(1.0);
        let text = format!(
            "p99, {when_full:?}: {ratio:.2} of that with {FEW} networks, at most {P99_RATIO}"
        );
        checks.figure(ratio <= P99_RATIO, &text);
    }
    // Documented: an evicted network has its burst again.
    let above = evicting.above();
    println!("        {above} networks were admitted above their quota (Evict)");
}

/// Returns the resident set, in bytes.
fn resident() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    of_field(&status, "VmRSS:").ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))
}

fn of_field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_field_reads_kilobytes() {
        let status = "Name:\tload\nVmHWM:\t    9000 kB\nVmRSS:\t    8672 kB\n";
        assert_eq!(of_field(status, "VmRSS:"), Some(8672 * 1024));
        assert_eq!(of_field(status, "VmSwap:"), None);
    }
}
