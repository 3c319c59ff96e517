//! Runs one process of the fleet: its tasks make one call after the other, and report the admissions.

use std::error::Error;
use std::io::stdin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate::{AcquireError, Algorithm};
use tollgate_redis::{Lease, LimitSet, RateLimiter, Semaphore, Source, Store, StoreError};

use crate::fleet::{now, of, until};
use crate::options::{AHEAD, HOLD, HORIZON, Options, POLL};
use crate::report::Report;

/// The pause after a failure of the store before the next call.
const AGAIN: Duration = Duration::from_millis(20);

pub(crate) async fn run(address: &str, options: &Options) -> Result<(), Box<dyn Error>> {
    let deadline = Duration::from_millis(options.deadline);
    let store = Store::new(address)?.deadline(deadline);
    println!("{}", Report::Ready);
    let gives_up = options.gives_up.then(|| store.clone());
    let end = End::told(gives_up)?;
    if let Some(permits) = options.lease {
        run_lease(&store, options, permits, end).await
    } else if options.several {
        run_several(&store, options, end).await
    } else {
        run_rate(&store, options, end).await
    }
}

/// The time of the end, as the auditor sets it. The auditor may set another time, or disappear, at any time.
#[derive(Clone)]
struct End {
    micros: Arc<AtomicU64>,
    /// A process that gives up ends with the first failure of this store.
    gives_up: Option<Store>,
}

impl End {
    /// Waits for the first time from the auditor.
    fn told(gives_up: Option<Store>) -> Result<Self, Box<dyn Error>> {
        let mut line = String::new();
        stdin().read_line(&mut line)?;
        let micros = Arc::new(AtomicU64::new(line.trim().parse()?));
        let told = Arc::clone(&micros);
        std::thread::spawn(move || {
            for line in stdin().lines() {
                let micros = line.ok().and_then(|line| line.trim().parse().ok());
                told.store(micros.unwrap_or(0), Ordering::Relaxed);
            }
            told.store(0, Ordering::Relaxed);
        });
        Ok(Self { micros, gives_up })
    }

    fn left(&self) -> Duration {
        let store = self.gives_up.as_ref();
        if store.is_some_and(|store| store.last_failure().is_some()) {
            return Duration::ZERO;
        }
        until(self.micros.load(Ordering::Relaxed))
    }
}

/// Reports how the store failed.
async fn failed(error: StoreError) {
    let perhaps = error.is_perhaps_charged();
    let (at, how) = (now(), format!("{error:?}"));
    println!("{}", Report::Failed { at, perhaps, how });
    tokio::time::sleep(AGAIN).await;
}

/// Handles the error of a wait: the store may have failed, or the wait would have taken too long.
async fn refused(error: &AcquireError) {
    let source = Error::source(error).and_then(|source| source.downcast_ref::<StoreError>());
    match source {
        Some(error) => failed(*error).await,
        None => tokio::time::sleep(AGAIN).await,
    }
}

/// Returns the answer, if it arrives while the caller waits; in some cases the caller waits only briefly.
async fn while_waiting<T>(drops: &Share, call: impl Future<Output = T>) -> Option<T> {
    if drops.is_now() {
        let soon = Duration::from_micros(now() % 3000);
        tokio::time::timeout(soon, call).await.ok()
    } else {
        Some(call.await)
    }
}

/// An action for a share of the cases, counted over all tasks.
struct Share {
    of_hundred: u64,
    count: AtomicU64,
}

/// The shares of calls that are dropped and that are cheated.
#[derive(Clone)]
struct Shares {
    cheats: Arc<Share>,
    drops: Arc<Share>,
}

impl Share {
    fn new(of_hundred: u64) -> Arc<Self> {
        Arc::new(Self {
            of_hundred,
            count: AtomicU64::new(0),
        })
    }

    /// Returns whether this case belongs to the share.
    fn is_now(&self) -> bool {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        (count + 1) * self.of_hundred / 100 > count * self.of_hundred / 100
    }
}

// Tests leases, which are held for a while, some of them so long that they have to be renewed.

/// The interval at which a holder checks its lease.
const LOOK: Duration = Duration::from_millis(1);

/// The time within which a holder is told of a lost lease.
const TOLD: Duration = Duration::from_secs(5);

async fn run_lease(
    store: &Store,
    options: &Options,
    permits: usize,
    end: End,
) -> Result<(), Box<dyn Error>> {
    let leases = Semaphore::new(store, "fleet", permits)
        .ttl(options.ttl())
        .poll(POLL);
    let shares = Shares {
        cheats: Share::new(options.cheat),
        drops: Share::new(options.drops),
    };
    let mut tasks = JoinSet::new();
    for _ in 0..options.tasks {
        tasks.spawn(ask_lease(leases.clone(), shares.clone(), end.clone()));
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

async fn ask_lease(leases: Semaphore, shares: Shares, end: End) -> Result<(), String> {
    let mut count = 0;
    loop {
        let left = end.left();
        if left.is_zero() {
            return Ok(());
        }
        let asked = now();
        let call = leases.acquire().timeout(left);
        let Some(answer) = while_waiting(&shares.drops, call).await else {
            continue;
        };
        match answer {
            Ok(lease) => {
                let granted = now();
                count += 1;
                let report = Report::Held {
                    id: lease.id().to_owned(),
                    fencing: lease.fencing(),
                    asked,
                    granted,
                };
                println!("{report}");
                let hold = if count % 4 == 0 { 10 * HOLD } else { HOLD };
                let overstays = shares.cheats.is_now();
                let report = hold_on(lease, granted, hold.min(end.left()), overstays).await?;
                println!("{report}");
            }
            Err(error) => refused(&error).await,
        }
    }
}

/// Holds the lease, and reports until when it was certainly held.
async fn hold_on(
    lease: Lease,
    granted: u64,
    hold: Duration,
    overstays: bool,
) -> Result<Report, String> {
    let id = lease.id().to_owned();
    let begin = Instant::now();
    let mut until = granted;
    loop {
        let looked = now();
        if lease.is_lost() {
            // A holder that does not check is told by the token.
            let told = tokio::time::timeout(TOLD, lease.token().cancelled()).await;
            let told = told.map_err(|_| format!("of lease {id} nobody said that it is lost"));
            let lost = true;
            return told.map(|()| Report::Left { id, until, lost });
        }
        until = looked;
        if begin.elapsed() >= hold {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    if overstays {
        // Whether the release succeeds or not, the holder continues as if it held the lease.
        let _ = lease.release().await;
        tokio::time::sleep(HOLD).await;
        until = now();
    }
    let lost = false;
    Ok(Report::Left { id, until, lost })
}

// Tests one rate.

async fn run_rate(store: &Store, options: &Options, end: End) -> Result<(), Box<dyn Error>> {
    let mut limiter =
        RateLimiter::new(store, "fleet", options.quota()).algorithm(options.algorithm);
    limiter = limiter.horizon(HORIZON);
    if let Some(chunk) = options.ahead {
        limiter = limiter.prefetch(chunk, AHEAD);
    }
    let shares = Shares {
        cheats: Share::new(options.cheat),
        drops: Share::new(options.drops),
    };
    let mut tasks = JoinSet::new();
    for _ in 0..options.tasks {
        tasks.spawn(ask_rate(
            limiter.clone(),
            options.clone(),
            shares.clone(),
            end.clone(),
        ));
    }
    while let Some(task) = tasks.join_next().await {
        task?;
    }
    Ok(())
}

async fn ask_rate(limiter: RateLimiter, options: Options, shares: Shares, end: End) {
    loop {
        let left = end.left();
        if left.is_zero() {
            return;
        }
        let call = limiter.acquire().timeout(left);
        let Some(answer) = while_waiting(&shares.drops, call).await else {
            continue;
        };
        match answer {
            Ok(charge) => {
                let report = Report::Admitted {
                    tick: of(charge.at()),
                    ahead: charge.source() == Source::TokenCache,
                };
                println!("{report}");
                if shares.cheats.is_now() {
                    println!("{report}");
                }
                if options.think > 0 {
                    sleep(Duration::from_millis(options.think)).await;
                }
            }
            Err(error) => refused(&error).await,
        }
    }
}

// Tests the limits of a set in one call.

/// The key of the limit that counts all admissions.
pub(crate) const LEDGER: &str = "{fleet}:ledger";

#[derive(Clone)]
struct Cheats {
    twice: Arc<Share>,
    uneven: Arc<Share>,
}

async fn run_several(store: &Store, options: &Options, end: End) -> Result<(), Box<dyn Error>> {
    let two = LimitSet::new(store)
        .limit_by(options.algorithm, "{fleet}:first", options.quota())
        .limit_by(Algorithm::FixedWindow, "{fleet}:second", options.window());
    let all = two
        .clone()
        .limit_by(Algorithm::FixedWindow, LEDGER, Options::ledger());
    let cheats = Cheats {
        twice: Share::new(options.cheat),
        uneven: Share::new(options.uneven),
    };
    let mut tasks = JoinSet::new();
    for _ in 0..options.tasks {
        tasks.spawn(ask_several(
            all.clone(),
            two.clone(),
            cheats.clone(),
            end.clone(),
        ));
    }
    while let Some(task) = tasks.join_next().await {
        task?;
    }
    Ok(())
}

async fn ask_several(all: LimitSet, two: LimitSet, cheats: Cheats, end: End) {
    loop {
        let left = end.left();
        if left.is_zero() {
            return;
        }
        let limits = if cheats.uneven.is_now() { &two } else { &all };
        match limits.try_acquire().await {
            Ok(outcome) if outcome.is_admitted() => {
                let at = outcome
                    .decisions()
                    .first()
                    .map_or(0, |it| it.at.as_nanos() / 1000);
                let report = Report::Admitted {
                    tick: at,
                    ahead: false,
                };
                println!("{report}");
                if cheats.twice.is_now() {
                    println!("{report}");
                }
            }
            Ok(outcome) => {
                let wait = outcome.retry_after().map_or(left, |wait| wait.min(left));
                tokio::time::sleep(wait).await;
            }
            Err(error) => failed(error).await,
        }
    }
}
