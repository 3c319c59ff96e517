//! Runs the whole job, from the command line to the report.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tollgate::throttle::BoxThrottle;
use tollgate::{ChannelSemaphore, Pool, RateLimiter, Semaphore};

use crate::args::Args;
use crate::arrivals::{Arrival, Waits};
use crate::error::Error;
use crate::gauge::{ClientCounts, Sample, Seen};
use crate::grace::Grace;
use crate::kind::{CondvarThrottle, ThrottleKind};
use crate::measure::{Found, measure};
use crate::progress::{Pauses, Progress, announce};
use crate::report::{CountedBy, Figures, Report};
use crate::server::{Behaviour, Server};
use crate::source::{self, Listing};
use crate::store::{Limits, START, Stores};
use crate::upload::{Job, verify};

/// The result of a job.
#[derive(Debug)]
pub struct Finished {
    /// The report.
    pub report: Report,
    /// The uploads in flight over time, for a plot. It is empty unless the arguments ask for a plot.
    pub samples: Vec<Sample>,
    /// The times at which the throttled requests began.
    pub arrivals: Vec<Arrival>,
}

/// How long a permit on the Redis server stays held after its process has died.
const LEASE: Duration = Duration::from_secs(3);

/// How long the Redis server may take to answer. The default of 50 ms suits a request of a web server.
/// An upload can wait longer, but not as long as the lease.
const ANSWER: Duration = Duration::from_secs(1);

/// Uploads the files until the token is cancelled, then reads the objects back and compares them.
///
/// # Errors
///
/// If the job cannot start. Failures of single files are in the report.
///
/// # Panics
///
/// If the throttle cannot have `max_parallel` permits. The command line does not allow such a number.
pub async fn run(args: &Args, token: &CancellationToken) -> Result<Finished, Error> {
    let limits = Limits::new(slots(args)?, args);
    // The directory is removed when this value is dropped, however the job ends.
    let scratch = scratch()?;
    let listing = list(args, &scratch).await?;
    let progress = Arc::new(Progress::new(&listing, args.verbose));
    let target = Target::open(args, &scratch, &limits, &progress, token).await?;

    let job = Arc::new(Job {
        stores: target.stores,
        turns: Semaphore::new(args.max_parallel.min(Semaphore::MAX_PERMITS)),
        token: token.clone(),
        part_bytes: args.part_bytes(),
        progress,
    });
    let began = Instant::now();
    let mut outcomes = Arc::clone(&job).run(listing.files).await;
    let time = began.elapsed();

    verify(
        &job.stores.reading,
        &mut outcomes,
        args.max_parallel,
        token,
        &target.client.grace,
        &job.progress,
    )
    .await;
    job.progress.clear();
    if let (Some(server), Some(rate), Some(_)) = (&target.server, &limits.adaptive, args.slow_down)
    {
        announce("measuring how many requests per second the server accepts");
        let (client, found) = (&job.stores.capped, &target.client.found);
        let (endpoint, start) = (server.endpoint(), rate.rate().max(START));
        let measuring = measure(client, &endpoint, found, start, args.max_parallel);
        token.run_until_cancelled(measuring).await;
    }

    let arrivals = target.counted.arrivals.all();
    let report = Report::new(
        &outcomes,
        listing.failures,
        Figures {
            time,
            max_parallel: args.max_parallel,
            throttle: args.kind(),
            rate: args.rate,
            slow_down: args.slow_down,
            adaptive: args.adaptive,
            bandwidth: args.bandwidth.as_ref(),
            arrivals: &arrivals,
            counted: &target.counted,
            counted_by: target.counted_by,
            client: &target.client,
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

/// Makes the throttle that the arguments select.
fn slots(args: &Args) -> Result<BoxThrottle, Error> {
    let permits = args.max_parallel;
    if let Some(address) = &args.redis {
        let store =
            tollgate_redis::Store::new(address).map_err(|source| Error::Redis { source })?;
        let store = store.deadline(ANSWER);
        // A holder that dies blocks its permit for at most this long.
        let leases = tollgate_redis::Semaphore::new(&store, "uploads", permits).ttl(LEASE);
        return Ok(BoxThrottle::new(leases));
    }
    Ok(match args.throttle {
        // `--redis` selects that variant; the code above handles it.
        ThrottleKind::Semaphore | ThrottleKind::Redis => {
            BoxThrottle::new(Arc::new(Semaphore::new(permits)))
        }
        ThrottleKind::Pool => {
            BoxThrottle::new(Arc::new(Pool::new(std::iter::repeat_n((), permits))))
        }
        ThrottleKind::Channel => BoxThrottle::new(Arc::new(ChannelSemaphore::new(permits))),
        ThrottleKind::Tokio => BoxThrottle::new(Arc::new(tokio::sync::Semaphore::new(permits))),
        ThrottleKind::AsyncLock => BoxThrottle::new(Arc::new(async_lock::Semaphore::new(permits))),
        ThrottleKind::Condvar => {
            let throttle = CondvarThrottle::new(permits);
            BoxThrottle::new(throttle.map_err(|source| Error::Threads { source })?)
        }
    })
}

fn scratch() -> Result<TempDir, Error> {
    tempfile::Builder::new()
        .prefix("uploads-")
        .tempdir()
        .map_err(|source| Error::Generate { source })
}

/// Lists the files on a thread that may block.
async fn list(args: &Args, scratch: &TempDir) -> Result<Listing, Error> {
    let directory = args.directory.clone();
    let generated = scratch.path().join("files");
    announce(match directory {
        Some(_) => "listing the files",
        None => "generating 200 files, and listing them with those of this repository",
    });
    tokio::task::spawn_blocking(move || match directory {
        Some(directory) => source::directory(&directory),
        None => source::demonstration(&generated),
    })
    .await
    .expect("listing does not panic")
}

/// The server that receives the objects, and the counters.
#[derive(Debug)]
struct Target {
    stores: Stores,
    /// The client's own counts of its requests.
    client: Arc<ClientCounts>,
    /// The counts for the report.
    counted: Seen,
    counted_by: CountedBy,
    /// The embedded server, which stops when it is dropped.
    server: Option<Server>,
}

impl Target {
    async fn open(
        args: &Args,
        scratch: &TempDir,
        limits: &Limits,
        progress: &Arc<Progress>,
        token: &CancellationToken,
    ) -> Result<Target, Error> {
        let counted = Seen::new(args.plot.is_some());
        let client = |seen| {
            Arc::new(ClientCounts {
                seen,
                waits: Waits::default(),
                throttled: AtomicU64::new(0),
                found: Found::default(),
                pauses: args.adaptive.then(|| Pauses::new(Arc::clone(progress))),
                grace: Grace::after(token),
            })
        };
        if let (Some(endpoint), Some(bucket)) = (&args.endpoint, &args.bucket) {
            let client = client(counted.clone());
            let counts = Arc::clone(&client);
            return Ok(Target {
                stores: Stores::remote(endpoint, bucket, args, limits, counts, token).await?,
                client,
                counted,
                counted_by: CountedBy::Client,
                server: None,
            });
        }
        let root = match &args.store {
            Some(root) => root.clone(),
            None => scratch.path().join("store"),
        };
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
        let client = client(Seen::new(false));
        let counts = Arc::clone(&client);
        Ok(Target {
            stores: Stores::embedded(&server, args, limits, counts, token)?,
            client,
            counted,
            counted_by: CountedBy::Server,
            server: Some(server),
        })
    }
}
