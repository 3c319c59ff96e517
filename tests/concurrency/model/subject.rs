//! Types with the promises of a semaphore, and the calls that each supports.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate::semaphore::{OwnedPermit, Permit};
use tollgate::wait::Waiting;
use tollgate::{AcquireError, CondvarSemaphore, Pool, Semaphore, Snapshot, Throttle, TryThrottle};
use tollgate_adaptive::{
    AdaptivePermit, AdaptiveSemaphore, Controller, SampleWindow, Shared, Target,
};

use crate::fixed::Fixed;
use crate::support::random::Random;

pub(crate) type Boxed<P> = Pin<Box<dyn Future<Output = Result<P, AcquireError>>>>;

/// The observable state, as far as the type reports it: the limit, the available, used and waiting numbers,
/// and whether it is closed.
pub(crate) type Seen = ([Option<u64>; 4], Option<bool>);

fn all_of(snapshot: Snapshot, is_closed: bool) -> Seen {
    let numbers = [snapshot.limit, snapshot.available, snapshot.in_use];
    let [limit, available, in_use] = numbers.map(Some);
    let waiting = Some(snapshot.waiting as u64);
    ([limit, available, in_use, waiting], Some(is_closed))
}

/// A handle of a semaphore.
pub(crate) trait Subject: TryThrottle<Permit: Held> + Send + Sync + 'static {
    /// The supported calls; `bound` is for a bounded queue, `cost` for numbers other than 1, and `kept` for grants
    /// that outlive a close.
    const HAS: &'static str;

    fn has(call: &str) -> bool {
        Self::HAS.split(' ').any(|one| one == call)
    }

    fn try_many(&self, cost: u64) -> Result<Self::Permit, AcquireError> {
        assert_eq!(cost, 1);
        self.try_enter()
    }

    fn enter_many(&self, cost: u64) -> Boxed<Self::Permit> {
        assert_eq!(cost, 1);
        Box::pin(self.enter())
    }

    fn seen(&self) -> Seen;

    fn close(&self) {
        unreachable!()
    }

    fn idle(&self) -> Boxed<()> {
        unreachable!()
    }

    fn add(&self, _: usize) {
        unreachable!()
    }

    fn set_limit(&self, _: usize) {
        unreachable!()
    }

    /// Returns the semaphore, which has all other calls.
    fn semaphore(&self) -> &Semaphore {
        unreachable!()
    }
}

/// A permit.
pub(crate) trait Held: Sized {
    fn count(&self) -> usize {
        1
    }

    fn split(&mut self, _: usize) -> Option<Self> {
        unreachable!()
    }

    fn merge(&mut self, _: Self) {
        unreachable!()
    }

    fn forget(self) {
        unreachable!()
    }

    /// Gives it back in another way.
    fn end(self, _: &str) {
        unreachable!()
    }
}

macro_rules! held {
    ($($permit:ty: $count:ident;)*) => {$(
        impl Held for $permit {
            fn count(&self) -> usize {
                Self::$count(self)
            }

            fn split(&mut self, permits: usize) -> Option<Self> {
                Self::split(self, permits)
            }

            fn merge(&mut self, other: Self) {
                Self::merge(self, other);
            }

            fn forget(self) {
                Self::forget(self);
            }
        }
    )*};
}

held! {
    Permit<&Semaphore>: count;
    OwnedPermit: count;
}

/// All calls of a semaphore itself.
pub(crate) const ALL: &str = "try acquire crowd poll drop leak release release-all leak-permit split merge \
    forget limit add take-free reject close idle poll-idle drop-idle leak-idle free waiting cancel advance \
    cost bound kept";

macro_rules! semaphore {
    (
        $handle:ty, |$semaphore:ident, $cost:ident|
        $try_one:expr, $try_many:expr, $one:expr, $many:expr, $idle:expr
    ) => {
        impl Subject for $handle {
            const HAS: &'static str = ALL;

            fn try_many(&self, cost: u64) -> Result<Self::Permit, AcquireError> {
                let $semaphore = self.clone();
                match cost {
                    1 => $try_one,
                    $cost => $try_many,
                }
            }

            fn enter_many(&self, cost: u64) -> Boxed<Self::Permit> {
                let $semaphore = self.clone();
                match cost {
                    1 => Box::pin($one),
                    $cost => Box::pin($many),
                }
            }

            fn seen(&self) -> Seen {
                let snapshot = self.snapshot();
                assert_eq!(self.permits() as u64, snapshot.limit);
                assert_eq!(self.available_permits() as u64, snapshot.available);
                all_of(snapshot, self.is_closed())
            }

            fn close(&self) {
                Semaphore::close(self);
            }

            fn idle(&self) -> Boxed<()> {
                let $semaphore = self.clone();
                let idle = $idle;
                Box::pin(async {
                    idle.await;
                    Ok(())
                })
            }

            fn add(&self, permits: usize) {
                self.add_permits(permits);
            }

            fn set_limit(&self, limit: usize) {
                self.set_permits(limit);
            }

            fn semaphore(&self) -> &Semaphore {
                self
            }
        }
    };
}

fn made(limit: usize, bound: Option<usize>) -> Semaphore {
    let semaphore = Semaphore::new(limit);
    match bound {
        None => semaphore,
        Some(bound) => semaphore.max_waiters(bound),
    }
}

pub(crate) fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

pub(crate) fn borrowed(limit: usize, bound: Option<usize>) -> &'static Semaphore {
    leaked(made(limit, bound))
}

pub(crate) fn shared(limit: usize, bound: Option<usize>) -> Arc<Semaphore> {
    Arc::new(made(limit, bound))
}

semaphore!(
    &'static Semaphore,
    |semaphore, cost| semaphore.try_acquire(),
    semaphore.try_acquire_many(cost),
    semaphore.acquire(),
    semaphore.acquire_many(cost),
    semaphore.wait_idle()
);

semaphore!(
    Arc<Semaphore>,
    |semaphore, cost| semaphore.try_acquire_owned(),
    semaphore.cost_owned(cost).try_acquire(),
    semaphore.acquire_owned(),
    semaphore.cost_owned(cost).acquire(),
    semaphore.wait_idle_owned()
);

pub(crate) fn adaptive(limit: usize, bound: Option<usize>) -> Shared<AdaptiveSemaphore> {
    let semaphore = AdaptiveSemaphore::new(Fixed(limit as f64)).limits(1..=2000);
    #[cfg(feature = "tokio")]
    let semaphore = semaphore.clock(tollgate::Clock::tokio());
    Shared::from(match bound {
        None => semaphore,
        Some(bound) => semaphore.max_waiters(bound),
    })
}

/// Asks for any number, sensible or not, in windows of any size, and tells which limit of `1..=12` comes of it.
pub(crate) struct Erratic(pub(crate) Random, pub(crate) Arc<AtomicUsize>);

impl Controller for Erratic {
    fn initial(&self) -> Target {
        Target {
            limit: 3.0,
            samples: 3,
        }
    }

    fn update(&mut self, _: &SampleWindow) -> Target {
        let limits = [
            (0.4, Some(1)),
            (1.0, Some(1)),
            (2.5, Some(3)),
            (5.0, Some(5)),
            (9.0, Some(9)),
            (1e9, Some(12)),
            (0.0, None),
            (-1.0, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ];
        let (limit, becomes) = limits[self.0.below(10) as usize];
        let samples = self.0.below(12);
        assert!(self.0.below(50) > 0, "as the test wants it");
        if let Some(becomes) = becomes {
            self.1.store(becomes, Ordering::Relaxed);
        }
        Target { limit, samples }
    }
}

impl Held for AdaptivePermit<Shared<AdaptiveSemaphore>> {
    fn end(self, how: &str) {
        match how {
            "ignore" => self.ignore(),
            _ => self.overloaded(),
        }
    }
}

impl Subject for Shared<AdaptiveSemaphore> {
    const HAS: &'static str = "try acquire crowd poll drop leak release release-all leak-permit close idle \
        poll-idle drop-idle free waiting cancel advance bound kept";

    fn seen(&self) -> Seen {
        let snapshot = self.snapshot();
        // Only other threads can do this.
        assert_eq!(snapshot.lost_samples, 0);
        all_of(snapshot.permits, self.is_closed())
    }

    fn close(&self) {
        AdaptiveSemaphore::close(self);
    }

    fn idle(&self) -> Boxed<()> {
        let semaphore = self.clone();
        Box::pin(async move {
            semaphore.wait_idle().await;
            Ok(())
        })
    }
}

/// Its items are made when they are needed.
pub(crate) fn pool(limit: usize, _: Option<usize>) -> Arc<Pool<()>> {
    Arc::new(Pool::with_factory(limit, || ()))
}

impl Held for tollgate::pool::Permit<Arc<Pool<()>>, ()> {}

impl Subject for Arc<Pool<()>> {
    const HAS: &'static str = "try acquire crowd poll drop leak release release-all leak-permit limit idle \
        poll-idle drop-idle free waiting cancel advance";

    fn seen(&self) -> Seen {
        all_of(self.snapshot(), self.is_closed())
    }

    fn idle(&self) -> Boxed<()> {
        let pool = Arc::clone(self);
        Box::pin(async move {
            pool.wait_idle().await;
            Ok(())
        })
    }

    fn set_limit(&self, limit: usize) {
        self.set_size(limit);
    }
}

/// Without waits: the first to run takes a free permit.
const WITHOUT_WAITS: &str = "try release release-all leak-permit close free";

#[cfg(feature = "channel")]
impl Held for Permit<Arc<tollgate::ChannelSemaphore>> {}

#[cfg(feature = "channel")]
impl Subject for Arc<tollgate::ChannelSemaphore> {
    const HAS: &'static str = WITHOUT_WAITS;

    fn seen(&self) -> Seen {
        all_of(self.snapshot(), self.is_closed())
    }

    fn close(&self) {
        tollgate::ChannelSemaphore::close(self);
    }
}

/// A semaphore whose waits block a thread, which no poll can do.
#[derive(Clone)]
pub(crate) struct Blocking(Arc<CondvarSemaphore>);

pub(crate) fn blocking(limit: usize, _: Option<usize>) -> Blocking {
    Blocking(Arc::new(CondvarSemaphore::new(limit)))
}

impl Held for Permit<Arc<CondvarSemaphore>> {}

impl Throttle for Blocking {
    type Permit = Permit<Arc<CondvarSemaphore>>;
    type Enter = Boxed<Self::Permit>;

    fn enter(&self) -> Waiting<Self::Enter> {
        unreachable!()
    }
}

impl TryThrottle for Blocking {
    fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
        Arc::clone(&self.0).try_acquire_owned()
    }
}

impl Subject for Blocking {
    const HAS: &'static str = WITHOUT_WAITS;

    fn seen(&self) -> Seen {
        all_of(self.0.snapshot(), self.0.is_closed())
    }

    fn close(&self) {
        self.0.close();
    }
}

/// A semaphore of tokio, which does not report its limit and its waiters.
#[cfg(feature = "tokio")]
mod of_tokio {
    use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

    use super::*;

    held! {
        SemaphorePermit<'static>: num_permits;
        OwnedSemaphorePermit: num_permits;
    }

    macro_rules! subject {
        ($($handle:ty)*) => {$(
            impl Subject for $handle {
                const HAS: &'static str = "try acquire crowd poll drop leak release release-all leak-permit split \
                    merge forget add close free waiting cancel advance";

                fn seen(&self) -> Seen {
                    let available = self.available_permits() as u64;
                    ([None, Some(available), None, None], Some(self.is_closed()))
                }

                fn close(&self) {
                    Semaphore::close(self);
                }

                fn add(&self, permits: usize) {
                    self.add_permits(permits);
                }
            }
        )*};
    }

    subject! { &'static Semaphore Arc<Semaphore> }
}

/// A semaphore of async-lock, whose waiters may be overtaken.
#[cfg(feature = "async-lock")]
mod of_async_lock {
    use async_lock::{Semaphore, SemaphoreGuard, SemaphoreGuardArc};

    use super::*;

    macro_rules! subject {
        ($($handle:ty: $permit:ty;)*) => {$(
            impl Held for $permit {
                fn forget(self) {
                    Self::forget(self);
                }
            }

            impl Subject for $handle {
                const HAS: &'static str = "try release release-all leak-permit forget add free";

                fn seen(&self) -> Seen {
                    ([None, Some(self.available_permits() as u64), None, None], None)
                }

                fn add(&self, permits: usize) {
                    self.add_permits(permits);
                }
            }
        )*};
    }

    subject! {
        &'static Semaphore: SemaphoreGuard<'static>;
        Arc<Semaphore>: SemaphoreGuardArc;
    }
}
