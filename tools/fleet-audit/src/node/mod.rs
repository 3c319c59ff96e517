//! One process of the fleet: as many tasks as there are ask for one after the other, and say what
//! they were let do.

mod lease;
mod rate;
mod several;

use std::error::Error;
use std::io::stdin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::AcquireError;
use tollgate_redis::{Store, StoreError};

pub(crate) use self::several::LEDGER;
use crate::options::Options;
use crate::report::Report;
use crate::time::{now, until};

/// After the store failed it is asked again so soon.
const AGAIN: Duration = Duration::from_millis(5);

pub(crate) async fn run(address: &str, options: &Options) -> Result<(), Box<dyn Error>> {
    let deadline = Duration::from_millis(options.deadline);
    let store = Store::new(address)?.deadline(deadline);
    println!("{}", Report::Ready);
    let end = End::told()?;
    if let Some(permits) = options.lease {
        lease::run(&store, options, permits, end).await
    } else if options.several {
        several::run(&store, options, end).await
    } else {
        rate::run(&store, options, end).await
    }
}

/// When to end, as the auditor tells it: another time, or that it is gone, at any time.
#[derive(Clone)]
struct End {
    micros: Arc<AtomicU64>,
}

impl End {
    /// Waits to be told.
    fn told() -> Result<Self, Box<dyn Error>> {
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
        Ok(Self { micros })
    }

    fn left(&self) -> Duration {
        until(self.micros.load(Ordering::Relaxed))
    }
}

/// Says how the store failed, and whether to go on.
async fn failed(error: StoreError, options: &Options) -> bool {
    let perhaps = error.is_perhaps_charged();
    let (at, how) = (now(), format!("{error:?}"));
    println!("{}", Report::Failed { at, perhaps, how });
    tokio::time::sleep(AGAIN).await;
    !options.gives_up
}

/// Of one who waited: the store may have failed, or it would have taken too long.
async fn refused(error: &AcquireError, options: &Options) -> bool {
    let source = Error::source(error).and_then(|source| source.downcast_ref::<StoreError>());
    match source {
        Some(error) => failed(*error, options).await,
        None => {
            tokio::time::sleep(AGAIN).await;
            true
        }
    }
}

/// The answer, if it comes while one waits for it: sometimes that is not long.
async fn while_waiting<T>(drops: &Share, call: impl Future<Output = T>) -> Option<T> {
    if drops.is_now() {
        let soon = Duration::from_micros(now() % 3000);
        tokio::time::timeout(soon, call).await.ok()
    } else {
        Some(call.await)
    }
}

/// What is done in some cases only, counted over all tasks.
struct Share {
    of_hundred: u64,
    count: AtomicU64,
}

/// In which cases a call is dropped, and in which it is cheated.
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

    /// Whether this is one of them.
    fn is_now(&self) -> bool {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        (count + 1) * self.of_hundred / 100 > count * self.of_hundred / 100
    }
}
