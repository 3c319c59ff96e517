//! What came of it, as JSON and in words.
//!
//! `files` is always `verified + failed + cancelled`.

use std::fmt::{self, Write as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytesize::ByteSize;
use serde::Serialize;
use tollgate::Quota;

use crate::args::Bandwidth;
use crate::arrivals::{self, Arrival};
use crate::error::{Failure, Group, group};
use crate::gauge::{ClientCounts, Seen};
use crate::kind::ThrottleKind;
use crate::progress::shown;
use crate::source::SourceFile;
use crate::upload::{Outcome, Stop};

/// Who counted the requests under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CountedBy {
    /// The embedded server.
    Server,
    /// The client: another server does not tell.
    Client,
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How many files there were.
    pub files: usize,
    /// How many bytes the verified ones have.
    pub bytes: u64,
    /// How long the uploads took, without reading back.
    pub seconds: f64,
    /// How many requests were allowed at once.
    pub max_parallel: usize,
    /// What saw to that.
    pub throttle: ThrottleKind,
    /// The highest number of simultaneous requests of any kind.
    pub peak_in_flight: usize,
    /// Who counted them, and the requests below.
    pub counted_by: CountedBy,
    /// How many requests were allowed per time.
    pub rate: Option<Quota>,
    /// How many requests there were, reading back not included.
    pub requests: usize,
    /// How many requests of any kind there were, reading back included.
    pub requests_in_all: u64,
    /// How many of them began per second of the time that the uploads took, reading back not included.
    pub mean_requests_per_second: f64,
    /// How many of them began in any [second](crate::arrivals), at most.
    pub peak_requests_per_second: u64,
    /// How many requests the embedded server took per time, if it was told to refuse others.
    pub slow_down: Option<Quota>,
    /// Whether the rate that the server takes was to be found.
    pub adaptive: bool,
    /// How many requests the server refused because there were too many, those of the measurement
    /// after reading back included.
    pub throttled: u64,
    /// How many requests per second it takes, as found from its refusals.
    pub rate_found: Option<f64>,
    /// How many bytes of files were allowed per second.
    pub bandwidth: Option<Bandwidth>,
    /// How many bytes the requests brought per second of the time that the uploads took.
    pub mean_bytes_per_second: f64,
    /// How many bytes they brought that began in any [second](crate::arrivals), at most.
    pub peak_bytes_per_second: u64,
    /// The median of how long a request waited until it could go, in milliseconds.
    pub wait_p50_ms: Option<f64>,
    /// What 99 of 100 requests did not exceed, in milliseconds.
    pub wait_p99_ms: Option<f64>,
    /// Files whose object was read back and is equal.
    pub verified: usize,
    /// Files that could not be read or uploaded, or whose object is not equal.
    pub failed: usize,
    /// Files that were not done when the job was cancelled.
    pub cancelled: usize,
    /// Whether the job was cancelled, even if there was nothing left to do.
    pub interrupted: bool,
    /// Verified files whose object has another name than they have, since it was percent-encoded.
    pub renamed: usize,
    /// Links to directories, and what is neither a file nor a directory.
    pub skipped: usize,
    /// Why files failed.
    pub failures: Vec<Group>,
}

/// What the report is made from, besides the outcomes.
#[derive(Debug)]
pub(crate) struct Figures<'a> {
    pub(crate) time: Duration,
    pub(crate) max_parallel: usize,
    pub(crate) throttle: ThrottleKind,
    pub(crate) counted: &'a Seen,
    pub(crate) counted_by: CountedBy,
    pub(crate) rate: Option<Quota>,
    pub(crate) slow_down: Option<Quota>,
    pub(crate) adaptive: bool,
    pub(crate) bandwidth: Option<&'a Bandwidth>,
    pub(crate) arrivals: &'a [Arrival],
    pub(crate) client: &'a ClientCounts,
    pub(crate) interrupted: bool,
    pub(crate) skipped: usize,
}

impl Report {
    /// Adds the outcomes, and what failed before, up.
    pub(crate) fn new(
        outcomes: &[(SourceFile, Outcome)],
        mut failures: Vec<Failure>,
        figures: Figures<'_>,
    ) -> Report {
        let arrivals = figures.arrivals;
        let sent: u64 = arrivals.iter().map(Arrival::bytes).sum();
        let requests = figures.counted.requests.counts();
        let client = figures.client;
        let found = client.found.rate().filter(|_| figures.adaptive);
        let mut report = Report {
            files: outcomes.len() + failures.len(),
            bytes: 0,
            seconds: figures.time.as_secs_f64(),
            max_parallel: figures.max_parallel,
            throttle: figures.throttle,
            peak_in_flight: requests.peak,
            counted_by: figures.counted_by,
            rate: figures.rate,
            requests: arrivals.len(),
            requests_in_all: requests.begun,
            mean_requests_per_second: per_second(arrivals.len() as f64, figures.time),
            peak_requests_per_second: arrivals::peak(arrivals, Arrival::request),
            slow_down: figures.slow_down,
            adaptive: figures.adaptive,
            throttled: client.throttled.load(Ordering::Relaxed),
            rate_found: found.map(to_thousandths),
            bandwidth: figures.bandwidth.cloned(),
            mean_bytes_per_second: per_second(sent as f64, figures.time),
            peak_bytes_per_second: arrivals::peak(arrivals, Arrival::bytes),
            wait_p50_ms: client.waits.percentile(50).map(milliseconds),
            wait_p99_ms: client.waits.percentile(99).map(milliseconds),
            verified: 0,
            failed: 0,
            cancelled: 0,
            interrupted: figures.interrupted,
            renamed: 0,
            skipped: figures.skipped,
            failures: Vec::new(),
        };
        for (file, outcome) in outcomes {
            match outcome {
                Ok(()) => {
                    report.verified += 1;
                    report.renamed += usize::from(file.is_renamed);
                    report.bytes += file.len;
                }
                Err(Stop::Cancelled) => report.cancelled += 1,
                Err(Stop::Failed(failure)) => failures.push(failure.clone()),
            }
        }
        report.failed = failures.len();
        report.failures = group(&failures);
        report
    }

    /// What is to be said of the failures: a line for each cause, however many files it hit.
    pub fn complaints(&self) -> String {
        let mut text = String::new();
        for group in &self.failures {
            let names: Vec<_> = group.examples.iter().map(|key| shown(key)).collect();
            let more = if group.count > names.len() {
                ", ..."
            } else {
                ""
            };
            let files = if group.count == 1 { "file" } else { "files" };
            let _ = writeln!(
                text,
                "{} {files} failed ({}{more}): {}",
                group.count,
                names.join(", "),
                group.message
            );
        }
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.bytes as f64 / (1024.0 * 1024.0);
        writeln!(
            f,
            "{} files, {mebibytes:.1} MiB in {:.2} s",
            self.files, self.seconds
        )?;
        let by = match self.counted_by {
            CountedBy::Server => "server",
            CountedBy::Client => "client",
        };
        writeln!(
            f,
            "requests in flight: {} at most, counted by the {by}; {} allowed ({})",
            self.peak_in_flight, self.max_parallel, self.throttle
        )?;
        writeln!(
            f,
            "requests: {}, {:.1} per second, {} at most in any second; allowed: {}",
            self.requests,
            self.mean_requests_per_second,
            self.peak_requests_per_second,
            allowed(self.rate.as_ref())
        )?;
        writeln!(
            f,
            "sent: {} per second, {} at most in any second; allowed: {}",
            ByteSize(self.mean_bytes_per_second as u64).display().si(),
            ByteSize(self.peak_bytes_per_second).display().si(),
            allowed(self.bandwidth.as_ref())
        )?;
        if self.throttled > 0 {
            write!(f, "refused with 503 or 429: {}", self.throttled)?;
            if let Some(rate) = self.rate_found {
                write!(f, "; the server accepts {rate:.1} requests per second")?;
            }
            writeln!(f)?;
        }
        if let (Some(p50), Some(p99)) = (self.wait_p50_ms, self.wait_p99_ms) {
            writeln!(f, "wait: p50 {p50:.1} ms, p99 {p99:.1} ms")?;
        }
        write!(
            f,
            "verified: {}, failed: {}, cancelled: {}",
            self.verified, self.failed, self.cancelled
        )?;
        if self.renamed > 0 {
            write!(f, ", renamed: {}", self.renamed)?;
        }
        if self.skipped > 0 {
            write!(f, ", skipped: {}", self.skipped)?;
        }
        Ok(())
    }
}

/// To the microsecond, which is finer than anything that is waited for here.
fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

fn per_second(number: f64, time: Duration) -> f64 {
    to_thousandths(number / time.as_secs_f64().max(f64::MIN_POSITIVE))
}

fn to_thousandths(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

fn allowed(limit: Option<&impl ToString>) -> String {
    limit.map_or_else(|| "any number".to_owned(), ToString::to_string)
}
