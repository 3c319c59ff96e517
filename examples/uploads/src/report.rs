//! Reports the result, as JSON and as text.
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

/// The side that counted the requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CountedBy {
    /// The embedded server.
    Server,
    /// The client, because another server does not report its counts.
    Client,
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The number of files.
    pub files: usize,
    /// The number of bytes of the verified files.
    pub bytes: u64,
    /// The duration of the uploads, without reading back.
    pub seconds: f64,
    /// The maximum number of requests at once.
    pub max_parallel: usize,
    /// The throttle that enforced this maximum.
    pub throttle: ThrottleKind,
    /// The highest number of simultaneous requests of any kind.
    pub peak_in_flight: usize,
    /// The side that counted them, and the requests below.
    pub counted_by: CountedBy,
    /// The maximum rate of requests.
    pub rate: Option<Quota>,
    /// The number of requests, not including those that read back.
    pub requests: usize,
    /// The number of requests of any kind, including those that read back.
    pub requests_in_all: u64,
    /// The number of requests per second of the time of the uploads, not including those that read back.
    pub mean_requests_per_second: f64,
    /// The highest number of these requests that began in any [second](crate::arrivals).
    pub peak_requests_per_second: u64,
    /// The rate above which the embedded server refused requests, if one was set.
    pub slow_down: Option<Quota>,
    /// Whether the program looked for the rate that the server accepts.
    pub adaptive: bool,
    /// The number of requests that the server refused because there were too many. It includes those of
    /// the measurement after reading back.
    pub throttled: u64,
    /// The rate that the server accepts in requests per second, as found from its refusals.
    pub rate_found: Option<f64>,
    /// The maximum number of bytes of files per second.
    pub bandwidth: Option<Bandwidth>,
    /// The number of bytes in the requests per second of the time of the uploads.
    pub mean_bytes_per_second: f64,
    /// The highest number of bytes in requests that began in any [second](crate::arrivals).
    pub peak_bytes_per_second: u64,
    /// The median time that a request waited until it was admitted, in milliseconds.
    pub wait_p50_ms: Option<f64>,
    /// The wait that 99 of 100 requests did not exceed, in milliseconds.
    pub wait_p99_ms: Option<f64>,
    /// The files whose object was read back and is equal.
    pub verified: usize,
    /// The files that could not be read or uploaded, or whose object is not equal.
    pub failed: usize,
    /// The files that were not done when the job was cancelled.
    pub cancelled: usize,
    /// Whether the job was cancelled, even if all work was already done.
    pub interrupted: bool,
    /// The verified files whose object key differs from their name because it was percent-encoded.
    pub renamed: usize,
    /// The links to directories, and entries that are neither files nor directories.
    pub skipped: usize,
    /// The causes of the failures.
    pub failures: Vec<Group>,
}

/// The data of the report, besides the outcomes.
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
    /// Adds up the outcomes and the failures from before the uploads.
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

    /// Describes the failures in one line per cause, however many files it affected.
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

/// Converts to milliseconds with microsecond precision, which is finer than any wait here.
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
