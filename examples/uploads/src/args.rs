//! The command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use serde::{Serialize, Serializer};
use tollgate::Quota;
use tollgate::rate::QuotaError;

use crate::kind::ThrottleKind;
use crate::progress::say;

/// The longest time that a signed request may wait. S3 refuses signatures that are older than 15
/// minutes, and the store retries a request with the same signature for 5 minutes.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Uploads files to S3 with a cap on simultaneous requests, reads every object back and compares.
///
/// Without arguments it starts an S3 server of its own and uploads this repository's files and
/// 200 generated ones to it.
#[derive(Clone, Debug, Parser)]
#[command(name = "uploads", version)]
pub struct Args {
    /// The directory to upload [default: this repository and generated files]
    pub directory: Option<PathBuf>,

    /// The S3 server to upload to, with the usual AWS variables for the credentials and the region
    /// [default: a server in this process]
    #[arg(long, value_name = "URL", requires = "bucket", value_parser = endpoint)]
    pub endpoint: Option<String>,

    /// The bucket to upload to
    #[arg(long, value_name = "NAME", requires = "endpoint")]
    pub bucket: Option<String>,

    /// The maximum number of requests in flight
    #[arg(long, value_name = "N", default_value = "8", value_parser = max_parallel)]
    pub max_parallel: usize,

    /// The throttle that admits requests
    #[arg(long, value_name = "KIND", value_enum, default_value_t = ThrottleKind::Semaphore)]
    pub throttle: ThrottleKind,

    /// A Redis server that caps all processes with this URL together, instead of `--throttle`: each
    /// request holds a lease of one of `--max-parallel` permits
    #[arg(long, value_name = "URL", conflicts_with = "throttle")]
    pub redis: Option<String>,

    /// The maximum rate of requests, such as 50/s, or '50/s burst 10' to allow ten at once after a
    /// pause [default: no limit]
    ///
    /// Every HTTP request of an upload counts, including retries and requests that open, complete or
    /// abort a multipart upload. Requests that read back do not count. The limiter does not make up for
    /// late requests, so the rate is never exceeded.
    #[arg(long, value_name = "QUOTA")]
    pub rate: Option<Quota>,

    /// The maximum number of bytes of files sent per second, such as 20MB/s, 512KiB/s or 100Mbit/s
    /// [default: no limit]
    ///
    /// A request is charged for all of its bytes when it begins. The burst is a tenth of a second. A
    /// larger file or part is sent alone, and the next one waits until it is paid off. So in any
    /// second at most this many bytes are sent, plus a tenth of that or one part.
    #[arg(long, value_name = "SIZE/s")]
    pub bandwidth: Option<Bandwidth>,

    /// Make the server in this process refuse requests above this rate with 503 SlowDown, such as
    /// 200/s; the default burst is 20 ms of the rate, and at least two requests
    ///
    /// A refused request is sent again, up to ten times.
    #[arg(long, value_name = "QUOTA", value_parser = slow_down, conflicts_with = "endpoint")]
    pub slow_down: Option<Quota>,

    /// Find the rate of requests that the server accepts, from its responses 503 and 429
    ///
    /// At the end, the program overloads the server in this process for some seconds, so that the rate in
    /// the report is exact. For any other server the rate may be a few percent too low.
    /// A `Retry-After` pauses all requests, for a minute at most.
    #[arg(long)]
    pub adaptive: bool,

    /// Files larger than this many MiB are sent in parts of this size; at most `--max-parallel`
    /// parts are in memory at once
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u64).range(5..=5120))]
    pub part_size: u64,

    /// The maximum number of retries of a request that got no answer or a server error; requests to the
    /// server in this process are retried only with `--slow-down`
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub retries: usize,

    /// Seconds after which a request counts as failed
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: Duration,

    /// Print the report as JSON on stdout
    #[arg(long)]
    pub json: bool,

    /// Draw the number of uploads in flight over time into this SVG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,

    /// Keep the objects of the server in this process in this directory [default: a temporary one]
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "endpoint")]
    pub store: Option<PathBuf>,

    /// Print a line on stderr for each part and each object as soon as it has been uploaded
    #[arg(long, short)]
    pub verbose: bool,
}

impl Args {
    /// Reads the command line. Exits with a message if it is invalid, like [`Args::parse`].
    pub fn from_command_line() -> Args {
        let args = Args::parse();
        if let Err(error) = args.check() {
            error.exit();
        }
        if let Some(warning) = args.warning() {
            say(&warning);
        }
        args
    }

    /// Checks combinations of arguments.
    fn check(&self) -> Result<(), clap::Error> {
        let (asked, most) = (self.max_parallel, self.kind().max_permits());
        if asked <= most {
            return Ok(());
        }
        let option = self.redis.as_ref().map_or("throttle ", |_| "");
        let message = format!(
            "invalid value '{asked}' for '--max-parallel <N>': it can be at most {most} with \
             '--{option}{}'",
            self.kind()
        );
        Err(Args::command().error(ErrorKind::ValueValidation, message))
    }

    /// Returns a warning if the limits may make a request wait so long that the server rejects its
    /// signature. The server in this process accepts old signatures.
    fn warning(&self) -> Option<String> {
        let wait = self.longest_wait();
        let is_long = self.endpoint.is_some() && wait > LONGEST_WAIT.as_secs_f64();
        is_long.then(|| {
            format!(
                "warning: a request could wait for {wait:.0} s after it has been signed, and S3 refuses \
                 signatures that are older than 15 minutes: allow more per time, or choose a smaller \
                 '--max-parallel' or '--part-size'"
            )
        })
    }

    /// Returns the most seconds that the limits per second can make a signed request wait. At most
    /// `max_parallel` requests are signed at a time, and each of the others may be admitted before it.
    fn longest_wait(&self) -> f64 {
        let time = |quota: Quota, cost: u64| {
            if quota.is_unlimited() {
                0.0
            } else {
                cost as f64 / quota.count() as f64 * quota.period().as_secs_f64()
            }
        };
        let request = self.rate.map_or(0.0, |rate| time(rate, 1));
        let bandwidth = self.bandwidth.as_ref().map(Bandwidth::quota);
        let part = bandwidth.map_or(0.0, |bytes| time(bytes, self.part_bytes()));
        self.max_parallel as f64 * (request + part)
    }

    /// Returns the kind of the throttle.
    pub fn kind(&self) -> ThrottleKind {
        match self.redis {
            Some(_) => ThrottleKind::Redis,
            None => self.throttle,
        }
    }

    /// Returns the size of a part in bytes.
    pub fn part_bytes(&self) -> u64 {
        self.part_size * 1024 * 1024
    }
}

fn endpoint(text: &str) -> Result<String, &'static str> {
    if text.starts_with("http://") || text.starts_with("https://") {
        Ok(text.to_owned())
    } else {
        Err("it must begin with http:// or https://")
    }
}

fn max_parallel(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1, or nothing could be uploaded".to_owned()),
        Ok(n) => Ok(n),
        Err(error) => Err(error.to_string()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(n) => Ok(Duration::from_secs(n)),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a quota and gives it a burst if the text names none. A server without a burst would refuse
/// evenly spaced requests that the network moves closer together.
fn slow_down(text: &str) -> Result<Quota, QuotaError> {
    let quota: Quota = text.parse()?;
    if quota.is_unlimited() || text.contains("burst") {
        return Ok(quota);
    }
    let in_20_ms = u128::from(quota.count()) * 20_000_000 / quota.period().as_nanos();
    Ok(quota.burst(u64::try_from(in_20_ms).unwrap_or(u64::MAX).max(2)))
}

/// A number of bytes per second on the command line. The text is a size, such as `20MB`, `512KiB` or
/// `1.5MB`, or a number of bits, such as `100Mbit`, followed by `/s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    text: String,
    quota: Quota,
}

/// The reason why a text is not a valid bandwidth.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BandwidthError {
    /// The text is not a size per second.
    Unreadable,
    /// The text has a lower-case `b`, which may stand for a bit or for a byte.
    Ambiguous,
    /// The bandwidth is zero, or less than one byte per second.
    Zero,
    /// The bandwidth is above 16 gigabytes per second, which exceeds the maximum of a [`Quota`].
    TooLarge,
}

impl Bandwidth {
    /// Returns this bandwidth as a quota. Its burst is a tenth of a second's worth.
    pub fn quota(&self) -> Quota {
        self.quota
    }
}

impl FromStr for Bandwidth {
    type Err = BandwidthError;

    fn from_str(text: &str) -> Result<Bandwidth, BandwidthError> {
        let size = text.strip_suffix("/s").ok_or(BandwidthError::Unreadable)?;
        let read = |size: &str| match size.trim().parse() {
            Ok(ByteSize(number)) => Ok(number),
            Err(_) => Err(BandwidthError::Unreadable),
        };
        let bytes = match size.strip_suffix("bit") {
            Some(bits) => read(&format!("{bits}B"))? / 8,
            None if size.ends_with('b') => return Err(BandwidthError::Ambiguous),
            // The unit of a bare number is unknown.
            None if !size.ends_with('B') => return Err(BandwidthError::Unreadable),
            None => read(size)?,
        };
        match bytes {
            0 => Err(BandwidthError::Zero),
            1..=16_000_000_000 => Ok(Bandwidth {
                text: text.to_owned(),
                quota: Quota::per_second(bytes).burst(bytes.div_ceil(10)),
            }),
            _ => Err(BandwidthError::TooLarge),
        }
    }
}

/// Formats the text as it was written.
impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Serialize for Bandwidth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl fmt::Display for BandwidthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BandwidthError::Unreadable => {
                "expected bytes or bits per second, such as 20MB/s, 512KiB/s or 100Mbit/s"
            }
            BandwidthError::Ambiguous => "write B for bytes and bit for bits",
            BandwidthError::Zero => "it must be at least 1B/s, or nothing could be uploaded",
            BandwidthError::TooLarge => "it can be at most 16GB/s",
        })
    }
}

impl std::error::Error for BandwidthError {}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn command_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_cap_of_zero_is_a_usage_error() {
        let error = Args::try_parse_from(["uploads", "--max-parallel", "0"]).unwrap_err();
        assert!(error.to_string().contains("at least 1"), "{error}");
    }

    #[test]
    fn a_cap_above_what_the_throttle_can_have_is_a_usage_error() {
        for kind in ThrottleKind::value_variants() {
            let check = |cap: usize| {
                let (cap, kind) = (cap.to_string(), kind.to_string());
                let args = ["uploads", "--max-parallel", &cap, "--throttle", &kind];
                Args::try_parse_from(args).unwrap().check()
            };
            let most = kind.max_permits();
            assert!(check(most).is_ok());
            let error = check(most + 1).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            let message = error.to_string();
            let expected = format!("at most {most} with '--throttle {kind}'");
            assert!(message.contains(&expected), "{message}");
        }
    }

    #[test]
    fn a_server_takes_the_place_of_a_throttle() {
        let redis = ["uploads", "--redis", "redis://127.0.0.1/"];
        let args = Args::try_parse_from(redis).unwrap();
        assert_eq!(args.kind(), ThrottleKind::Redis);
        let both = redis.into_iter().chain(["--throttle", "pool"]);
        assert!(Args::try_parse_from(both).is_err());
        let many = redis.into_iter().chain(["--max-parallel", "65537"]);
        let error = Args::try_parse_from(many).unwrap().check().unwrap_err();
        assert!(error.to_string().contains("at most 65536 with '--redis'"));
    }

    #[test]
    fn limits_per_second_are_read() {
        let args = [
            "uploads",
            "--rate",
            "50/s burst 10",
            "--bandwidth",
            "20MB/s",
        ];
        let args = Args::try_parse_from(args).unwrap();
        assert_eq!(args.rate, Some(Quota::per_second(50).burst(10)));
        assert_eq!(args.bandwidth.unwrap().quota().count(), 20_000_000);
    }

    #[test]
    fn slow_down_has_a_burst_of_20_ms_unless_it_says_another() {
        for (text, burst) in [
            ("200/s", 4),
            ("10/s", 2),
            ("6000/min", 2),
            ("200/s burst 1", 1),
        ] {
            assert_eq!(slow_down(text).unwrap().max_burst(), burst, "{text}");
        }
        assert_eq!(slow_down("unlimited"), Ok(Quota::UNLIMITED));
        assert!(slow_down("0/s").is_err());
        let remote = ["--endpoint", "http://h", "--bucket", "b"];
        let args = ["uploads", "--slow-down", "9/s"].into_iter().chain(remote);
        assert!(Args::try_parse_from(args).is_err());
    }

    #[test]
    fn warning_tells_of_limits_that_let_signatures_grow_too_old() {
        let remote = ["uploads", "--endpoint", "http://h", "--bucket", "b"];
        let warning = |args: &str| {
            let args = remote.into_iter().chain(args.split(' '));
            Args::try_parse_from(args).unwrap().warning()
        };
        // Eight requests, or eight parts of 8 MiB, are signed.
        for args in ["--rate 48/h", "--bandwidth 112kB/s", "--rate unlimited"] {
            assert_eq!(warning(args), None, "{args}");
        }
        for (args, wait) in [
            ("--rate 47/h", "613 s"),
            ("--bandwidth 111kB/s", "605 s"),
            ("--rate 96/h --bandwidth 223kB/s", "601 s"),
        ] {
            let warning = warning(args).unwrap();
            assert!(warning.contains(wait), "{warning}");
        }
        assert_eq!(warning("--rate 47/h --max-parallel 7"), None);
        let embedded = Args::try_parse_from(["uploads", "--rate", "1/d"]);
        assert_eq!(embedded.unwrap().warning(), None);
    }

    #[test]
    fn endpoint_and_bucket_come_together() {
        assert!(Args::try_parse_from(["uploads", "--bucket", "b"]).is_err());
        assert!(Args::try_parse_from(["uploads", "--endpoint", "http://h"]).is_err());
        assert!(Args::try_parse_from(["uploads", "--endpoint", "h", "--bucket", "b"]).is_err());
        assert!(
            Args::try_parse_from(["uploads", "--endpoint", "http://h", "--bucket", "b"]).is_ok()
        );
    }

    fn bytes(text: &str) -> Result<u64, BandwidthError> {
        let bandwidth: Bandwidth = text.parse()?;
        assert_eq!(bandwidth.to_string(), text);
        Ok(bandwidth.quota().count())
    }

    #[test]
    fn units_are_decimal_binary_or_bits() {
        assert_eq!(bytes("20MB/s"), Ok(20_000_000));
        assert_eq!(bytes("512KiB/s"), Ok(512 * 1024));
        assert_eq!(bytes("1.5 kB/s"), Ok(1_500));
        assert_eq!(bytes("100Mbit/s"), Ok(12_500_000));
        assert_eq!(bytes("64 Kibit/s"), Ok(8 * 1024));
        assert_eq!(bytes("1.25GB/s"), Ok(1_250_000_000));
        assert_eq!(bytes("16GB/s"), Ok(16_000_000_000));
        assert_eq!(bytes("1B/s"), Ok(1));
    }

    #[test]
    fn a_tenth_of_a_second_may_go_at_once() {
        let bandwidth: Bandwidth = "20MB/s".parse().unwrap();
        assert_eq!(bandwidth.quota().max_burst(), 2_000_000);
        let bandwidth: Bandwidth = "1B/s".parse().unwrap();
        assert_eq!(bandwidth.quota().max_burst(), 1);
    }

    #[test]
    fn what_could_mean_something_else_is_refused() {
        for text in [
            "", "/s", "20", "20MB", "20/s", "20M/s", "MB/s", "-1MB/s", "20MB/min", "1,5MB/s",
            "20QB/s", "bit/s", ".B/s", "20bitB/s", "20Bbit/s",
        ] {
            assert_eq!(bytes(text), Err(BandwidthError::Unreadable), "{text:?}");
        }
        assert_eq!(bytes("20Mb/s"), Err(BandwidthError::Ambiguous));
        assert_eq!(bytes("0MB/s"), Err(BandwidthError::Zero));
        assert_eq!(bytes("7bit/s"), Err(BandwidthError::Zero));
        assert_eq!(bytes("16.1GB/s"), Err(BandwidthError::TooLarge));
        assert_eq!(bytes("99999999999EB/s"), Err(BandwidthError::TooLarge));
    }
}
