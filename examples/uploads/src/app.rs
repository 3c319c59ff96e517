//! The whole job, from the command line to the report.

use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::aws::AmazonS3;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tollgate::{ChannelSemaphore, Pool, RateLimiter, Semaphore};

use crate::args::Args;
use crate::arrivals::{Arrival, Arrivals};
use crate::condvar::CondvarThrottle;
use crate::error::Error;
use crate::gauge::{Gauge, Sample};
use crate::kind::ThrottleKind;
use crate::observed::Behaviour;
use crate::progress::{Progress, announce};
use crate::rates::Rates;
use crate::report::{CountedBy, Figures, Report};
use crate::server::Server;
use crate::source::{self, Listing};
use crate::store;
use crate::upload::{Job, SharedThrottle};
use crate::verify::verify;
use crate::waits::Waits;

/// What a job leaves.
#[derive(Debug)]
pub struct Finished {
    /// The report.
    pub report: Report,
    /// The uploads under way over time, for a plot; empty unless the arguments ask for one.
    pub samples: Vec<Sample>,
    /// When the throttled requests began.
    pub arrivals: Vec<Arrival>,
}

/// How long a permit on a server is held by a process that has died.
const LEASE: Duration = Duration::from_secs(3);

/// Uploads what the arguments say until the token is cancelled, reads it back and compares.
///
/// # Errors
///
/// When the job cannot start. What goes wrong with single files is in the report.
///
/// # Panics
///
/// If the throttle cannot have `max_parallel` permits, which the command line does not allow.
pub async fn run(args: &Args, token: &CancellationToken) -> Result<Finished, Error> {
    let permits = args.max_parallel;
    if let Some(address) = &args.redis {
        let store =
            tollgate_redis::Store::new(address).map_err(|source| Error::Redis { source })?;
        // A holder that dies blocks its permit for no longer than this.
        let leases = tollgate_redis::Semaphore::new(&store, "uploads", permits).ttl(LEASE);
        return run_with(leases, args, token).await;
    }
    match args.throttle {
        // That is chosen by an address.
        ThrottleKind::Semaphore | ThrottleKind::Redis => {
            run_with(Arc::new(Semaphore::new(permits)), args, token).await
        }
        ThrottleKind::Pool => {
            let slots = std::iter::repeat_n((), permits);
            run_with(Arc::new(Pool::new(slots)), args, token).await
        }
        ThrottleKind::Channel => {
            run_with(Arc::new(ChannelSemaphore::new(permits)), args, token).await
        }
        ThrottleKind::Tokio => {
            let semaphore = tokio::sync::Semaphore::new(permits);
            run_with(Arc::new(semaphore), args, token).await
        }
        ThrottleKind::AsyncLock => {
            let semaphore = async_lock::Semaphore::new(permits);
            run_with(Arc::new(semaphore), args, token).await
        }
        ThrottleKind::Condvar => {
            let throttle =
                CondvarThrottle::new(permits).map_err(|source| Error::Threads { source })?;
            run_with(throttle, args, token).await
        }
    }
}

/// The same behind any throttle; the arguments say how the report calls it.
async fn run_with<T>(throttle: T, args: &Args, token: &CancellationToken) -> Result<Finished, Error>
where
    T: SharedThrottle,
{
    // Removed when it is dropped, however this ends.
    let scratch = scratch()?;
    let listing = list(args, &scratch).await?;
    let target = Target::open(args, &scratch).await?;

    let job = Arc::new(Job {
        throttle,
        rates: Rates::new(args.rate, args.bandwidth.as_ref()),
        store: Arc::new(target.store),
        token: token.clone(),
        part_bytes: args.part_bytes(),
        gauge: target.sent.gauge,
        arrivals: target.sent.arrivals,
        waits: Waits::default(),
        progress: Progress::new(&listing, args.verbose),
    });
    let began = Instant::now();
    let mut outcomes = Arc::clone(&job).run(listing.files).await;
    let time = began.elapsed();

    // What was cancelled before is still read back; cancelling now stops the reading.
    let reading = if token.is_cancelled() {
        CancellationToken::new()
    } else {
        token.clone()
    };
    verify(
        &job.store,
        &mut outcomes,
        args.max_parallel,
        &reading,
        &job.progress,
    )
    .await;
    job.progress.clear();

    let arrivals = target.counted.arrivals.all();
    let report = Report::new(
        &outcomes,
        listing.failures,
        Figures {
            time,
            max_parallel: args.max_parallel,
            throttle: args.kind(),
            rate: args.rate,
            bandwidth: args.bandwidth.as_ref(),
            arrivals: &arrivals,
            slow_down: args.slow_down,
            peak_in_flight: target.counted.requests.counts().peak,
            counted_by: target.counted_by,
            waits: &job.waits,
            interrupted: token.is_cancelled(),
            skipped: listing.skipped,
        },
    );
    Ok(Finished {
        report,
        samples: target.counted.gauge.samples(),
        arrivals,
    })
}

fn scratch() -> Result<TempDir, Error> {
    tempfile::Builder::new()
        .prefix("uploads-")
        .tempdir()
        .map_err(|source| Error::Generate { source })
}

/// Lists the files, on a thread that may block.
async fn list(args: &Args, scratch: &TempDir) -> Result<Listing, Error> {
    let directory = args.directory.clone();
    let generated = scratch.path().join("files");
    announce(match directory {
        Some(_) => "listing the files",
        None => "generating 200 files, and listing them and those of this repository",
    });
    tokio::task::spawn_blocking(move || match directory {
        Some(directory) => source::directory(&directory),
        None => source::demonstration(&generated),
    })
    .await
    .expect("listing does not panic")
}

/// What one side sees of the requests.
#[derive(Clone, Debug)]
struct Seen {
    /// The uploads.
    gauge: Arc<Gauge>,
    /// The requests of any kind.
    requests: Arc<Gauge>,
    arrivals: Arc<Arrivals>,
}

impl Seen {
    /// Nothing yet. Both begin at the same time, so that they can be drawn side by side.
    fn new(keep_samples: bool) -> Seen {
        Seen {
            gauge: Gauge::new(keep_samples),
            requests: Gauge::new(false),
            arrivals: Arrivals::new(),
        }
    }
}

/// Where the objects go, and who counts.
#[derive(Debug)]
struct Target {
    store: AmazonS3,
    /// What the client has sent.
    sent: Seen,
    /// What is in the report.
    counted: Seen,
    counted_by: CountedBy,
    /// Stops when it is dropped.
    _server: Option<Server>,
}

impl Target {
    async fn open(args: &Args, scratch: &TempDir) -> Result<Target, Error> {
        if let (Some(endpoint), Some(bucket)) = (&args.endpoint, &args.bucket) {
            let mut sent = Seen::new(args.plot.is_some());
            sent.requests = Arc::clone(&sent.gauge);
            return Ok(Target {
                store: store::remote(endpoint, bucket, args).await?,
                counted: sent.clone(),
                sent,
                counted_by: CountedBy::Client,
                _server: None,
            });
        }
        let root = match &args.store {
            Some(root) => root.clone(),
            None => scratch.path().join("store"),
        };
        let counted = Seen::new(args.plot.is_some());
        let behaviour = Behaviour {
            gauge: Arc::clone(&counted.gauge),
            requests: Arc::clone(&counted.requests),
            arrivals: Arc::clone(&counted.arrivals),
            slow_down: args
                .slow_down
                .map(|quota| Arc::new(RateLimiter::new(quota))),
            ..Behaviour::default()
        };
        announce("starting an S3 server in this process");
        let server = Server::start(&root, behaviour)
            .await
            .map_err(|source| Error::Server { source })?;
        Ok(Target {
            store: store::embedded(&server, args)?,
            sent: Seen::new(false),
            counted,
            counted_by: CountedBy::Server,
            _server: Some(server),
        })
    }
}
