//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use tollgate::{Quota, QuotaError};

use crate::bandwidth::Bandwidth;
use crate::kind::ThrottleKind;
use crate::progress::say;

/// The longest time for which a signed request may wait. S3 refuses signatures that are older than 15
/// minutes, and a request is sent again with the same one for 5 minutes.
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

    /// How many requests may be under way at once
    #[arg(long, value_name = "N", default_value = "8", value_parser = max_parallel)]
    pub max_parallel: usize,

    /// What decides when a request may go on
    #[arg(long, value_name = "KIND", value_enum, default_value_t = ThrottleKind::Semaphore)]
    pub throttle: ThrottleKind,

    /// The Redis server on which all processes with this URL are capped together, in place of
    /// `--throttle`: each request has a lease of one of `--max-parallel` permits
    #[arg(long, value_name = "URL", conflicts_with = "throttle")]
    pub redis: Option<String>,

    /// How many requests may begin per time, such as 50/s, or '50/s burst 10' if ten may go at once
    /// after a pause [default: no limit]
    ///
    /// Every HTTP request counts that has to do with uploading, also those that open, complete or
    /// abort a multipart upload, and what is sent again by `--retries`; not those that read back.
    /// Nothing is made up for when a request goes late, so there are never more.
    #[arg(long, value_name = "QUOTA")]
    pub rate: Option<Quota>,

    /// How many bytes of files may be sent per second, such as 20MB/s, 512KiB/s or 100Mbit/s
    /// [default: no limit]
    ///
    /// A request counts with all of its bytes when it begins. A tenth of a second's worth may go at
    /// once; a larger file or part goes alone, and the next one when it has been made up for. So in
    /// any second there are at most as many bytes as this and, beyond it, a tenth of it or one part.
    #[arg(long, value_name = "SIZE/s")]
    pub bandwidth: Option<Bandwidth>,

    /// Make the server in this process refuse the requests above this rate with 503 SlowDown, such as
    /// 200/s; without a burst in it, 20 ms of the rate are allowed at once, and at least two requests
    ///
    /// A refused request is sent again, up to ten times.
    #[arg(long, value_name = "QUOTA", value_parser = slow_down, conflicts_with = "endpoint")]
    pub slow_down: Option<Quota>,

    /// Find the rate of requests that the server takes, from those that it refuses with 503 or 429
    ///
    /// The server in this process is sent more than it takes for some seconds at the end, so that the
    /// rate in the report is exact; for any other server it may be a few percent too low.
    /// A `Retry-After` pauses all requests, for a minute at most.
    #[arg(long)]
    pub adaptive: bool,

    /// Files larger than this many MiB are sent in parts of this size; at most `--max-parallel`
    /// parts are in memory at once
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u64).range(5..=5120))]
    pub part_size: u64,

    /// How often a request that the server did not answer, or answered with a server error, is
    /// sent again; the server in this process is asked once, unless it has to `--slow-down`
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub retries: usize,

    /// Seconds after which a request counts as failed
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: Duration,

    /// Print the report as JSON on stdout
    #[arg(long)]
    pub json: bool,

    /// Draw the number of uploads under way over time into this SVG file
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
    /// Reads the command line. When it is wrong, says so and exits, as [`Args::parse`] does.
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

    /// Checks what arguments that are right on their own have to do with each other.
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

    /// What is to be said before it begins: the limits may make a request wait for so long that a
    /// server does not accept its signature. The one in this process does.
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

    /// Returns the most seconds for which the limits per second can make a signed request wait:
    /// `max_parallel` requests are signed, and each of the others may go before it.
    fn longest_wait(&self) -> f64 {
        let time = |quota: Quota, cost: u64| match quota.is_unlimited() {
            true => 0.0,
            false => cost as f64 / quota.count() as f64 * quota.period().as_secs_f64(),
        };
        let request = self.rate.map_or(0.0, |rate| time(rate, 1));
        let bandwidth = self.bandwidth.as_ref().map(Bandwidth::quota);
        let part = bandwidth.map_or(0.0, |bytes| time(bytes, self.part_bytes()));
        self.max_parallel as f64 * (request + part)
    }

    /// What decides when a request may go on.
    pub fn kind(&self) -> ThrottleKind {
        match self.redis {
            Some(_) => ThrottleKind::Redis,
            None => self.throttle,
        }
    }

    /// The size of a part in bytes.
    pub fn part_bytes(&self) -> u64 {
        self.part_size * 1024 * 1024
    }
}

fn endpoint(text: &str) -> Result<String, &'static str> {
    if text.starts_with("http://") || text.starts_with("https://") {
        Ok(text.to_owned())
    } else {
        Err("it has to begin with http:// or https://")
    }
}

fn max_parallel(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("nothing could ever be uploaded; it has to be at least 1".to_owned()),
        Ok(n) => Ok(n),
        Err(error) => Err(error.to_string()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(0) => Err("it has to be at least 1".to_owned()),
        Ok(n) => Ok(Duration::from_secs(n)),
        Err(error) => Err(error.to_string()),
    }
}

/// A quota with a burst: a server without one refuses evenly spaced requests that the network moves
/// closer together.
fn slow_down(text: &str) -> Result<Quota, QuotaError> {
    let quota: Quota = text.parse()?;
    if quota.is_unlimited() || text.contains("burst") {
        return Ok(quota);
    }
    let in_20_ms = u128::from(quota.count()) * 20_000_000 / quota.period().as_nanos();
    Ok(quota.burst(u64::try_from(in_20_ms).unwrap_or(u64::MAX).max(2)))
}

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
        // Eight requests, or eight parts of 8 MiB.
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
}
