//! What promises the same as a semaphore, and which of the calls it has.

use std::pin::Pin;
use std::sync::Arc;

use tollgate::adaptive::{AdaptivePermit, AdaptiveSemaphore};
use tollgate::{AcquireError, OwnedPermit, Permit, Pool, Semaphore, Snapshot, TryThrottle};

use crate::support::Fixed;

pub(crate) type Boxed<P> = Pin<Box<dyn Future<Output = Result<P, AcquireError>>>>;

/// A handle of a semaphore.
pub(crate) trait Subject: TryThrottle<Permit: Held> + 'static {
    /// The calls that it has; `bound` and `cost` are for a bounded queue and for other numbers than 1.
    const HAS: &'static str;

    fn try_many(&self, cost: u32) -> Result<Self::Permit, AcquireError> {
        assert_eq!(cost, 1);
        self.try_enter()
    }

    fn enter_many(&self, cost: u32) -> Boxed<Self::Permit> {
        assert_eq!(cost, 1);
        Box::pin(self.enter())
    }

    fn make(limit: usize, bound: Option<usize>) -> Self;

    /// What can be seen of it, as far as it tells, and whether it is closed.
    fn seen(&self) -> (Snapshot, bool);

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

    /// What has all other calls.
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
}

macro_rules! held {
    ($($permit:ty),*) => {$(
        impl Held for $permit {
            fn count(&self) -> usize {
                Self::count(self)
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

held!(Permit<&Semaphore>, OwnedPermit);

/// All calls of a semaphore itself.
pub(crate) const ALL: &str = "try acquire crowd poll drop leak release release-all leak-permit split merge \
    forget limit add take-free reject close idle poll-idle drop-idle leak-idle free waiting cancel advance \
    cost bound";

macro_rules! semaphore {
    (
        $handle:ty, |$made:ident| $make:expr, |$semaphore:ident, $cost:ident|
        $try_one:expr, $try_many:expr, $one:expr, $many:expr, $idle:expr
    ) => {
        impl Subject for $handle {
            const HAS: &'static str = ALL;

            fn make(limit: usize, bound: Option<usize>) -> Self {
                let semaphore = Semaphore::new(limit);
                let $made = match bound {
                    None => semaphore,
                    Some(bound) => semaphore.max_waiters(bound),
                };
                $make
            }

            fn try_many(&self, cost: u32) -> Result<Self::Permit, AcquireError> {
                let $semaphore = self.clone();
                match cost {
                    1 => $try_one,
                    $cost => $try_many,
                }
            }

            fn enter_many(&self, cost: u32) -> Boxed<Self::Permit> {
                let $semaphore = self.clone();
                match cost {
                    1 => Box::pin($one),
                    $cost => Box::pin($many),
                }
            }

            fn seen(&self) -> (Snapshot, bool) {
                let snapshot = self.snapshot();
                assert_eq!(self.permits() as u64, snapshot.limit);
                assert_eq!(self.available_permits() as u64, snapshot.available);
                (snapshot, self.is_closed())
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

semaphore!(
    &'static Semaphore,
    |made| Box::leak(Box::new(made)),
    |semaphore, cost| semaphore.try_acquire(),
    semaphore.try_acquire_many(cost),
    semaphore.acquire(),
    semaphore.acquire_many(cost),
    semaphore.wait_idle()
);

semaphore!(
    Arc<Semaphore>,
    |made| Arc::new(made),
    |semaphore, cost| semaphore.try_acquire_owned(),
    semaphore.cost_owned(cost).try_acquire(),
    semaphore.acquire_owned(),
    semaphore.cost_owned(cost).acquire(),
    semaphore.wait_idle_owned()
);

impl Held for AdaptivePermit<Arc<AdaptiveSemaphore>> {}

impl Subject for Arc<AdaptiveSemaphore> {
    const HAS: &'static str = "try acquire crowd poll drop leak release release-all leak-permit close idle \
        poll-idle drop-idle free waiting cancel advance bound";

    fn make(limit: usize, bound: Option<usize>) -> Self {
        let semaphore = AdaptiveSemaphore::new(Fixed(limit as f64)).limits(1..=2000);
        #[cfg(feature = "tokio")]
        let semaphore = semaphore.clock(tollgate::Clock::tokio());
        Arc::new(match bound {
            None => semaphore,
            Some(bound) => semaphore.max_waiters(bound),
        })
    }

    fn seen(&self) -> (Snapshot, bool) {
        (self.snapshot().permits, self.is_closed())
    }

    fn close(&self) {
        AdaptiveSemaphore::close(self);
    }

    fn idle(&self) -> Boxed<()> {
        let semaphore = Arc::clone(self);
        Box::pin(async move {
            semaphore.wait_idle().await;
            Ok(())
        })
    }
}

impl Held for tollgate::pool::Permit<Arc<Pool<()>>, ()> {}

/// Its items are made when they are needed.
impl Subject for Arc<Pool<()>> {
    const HAS: &'static str = "try acquire crowd poll drop leak release release-all leak-permit limit idle \
        poll-idle drop-idle free waiting cancel advance";

    fn make(limit: usize, _: Option<usize>) -> Self {
        Arc::new(Pool::with_factory(limit, || ()))
    }

    fn seen(&self) -> (Snapshot, bool) {
        (self.snapshot(), self.is_closed())
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

#[cfg(feature = "channel")]
impl Held for Permit<Arc<tollgate::ChannelSemaphore>> {}

/// Only what needs no wait: the first to run takes what there is.
#[cfg(feature = "channel")]
impl Subject for Arc<tollgate::ChannelSemaphore> {
    const HAS: &'static str = "try release release-all leak-permit close free";

    fn make(limit: usize, _: Option<usize>) -> Self {
        Arc::new(tollgate::ChannelSemaphore::new(limit))
    }

    fn seen(&self) -> (Snapshot, bool) {
        (self.snapshot(), self.is_closed())
    }

    fn close(&self) {
        tollgate::ChannelSemaphore::close(self);
    }
}
