//! One face for everything that is compared, so that a row is written once.
//!
//! Every method hands out the crate's own future or permit, not a wrapper: a wrapper would be
//! measured with it. All are used as their fair, thread-safe selves, as far as they have one. What
//! has no permit that gives itself back, as a bare channel, is given back by
//! [`TryPeer::give_back`].

mod channels;
mod logs;
mod rates;
mod semaphores;
mod throttles;

use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use self::channels::{
    BusyAsyncChannel, BusyFlume, IdleAsyncChannel, IdleFlume, IdleQueue, SyncChannel,
};
pub use self::logs::{MutexRing, OurLog};
pub use self::rates::{
    ByArc, ByReference, Governor, LeakyBucket, Limiter, OurFairQueue, OurLimiter, Rate,
    SharedRateLimit, TryLimiter, UpkeptGovernor, WaitLimiter, governor_quota, tower_rate,
};
pub use self::semaphores::Ours;
pub use self::throttles::{AsThrottle, Item};

/// What a try hands out: the crate's own `Result` or `Option`, not made into something else.
pub trait Answer: Send {
    /// What holds the permit.
    type Permit: Send;

    /// Whether the permit was to be had.
    fn is_permit(&self) -> bool;

    /// The permit.
    ///
    /// # Panics
    ///
    /// If it was not to be had.
    fn permit(self) -> Self::Permit;
}

impl<P: Send> Answer for Option<P> {
    type Permit = P;

    #[inline]
    fn is_permit(&self) -> bool {
        self.is_some()
    }

    fn permit(self) -> P {
        self.expect("a permit is free")
    }
}

impl<P: Send, E: Send + std::fmt::Debug> Answer for Result<P, E> {
    type Permit = P;

    #[inline]
    fn is_permit(&self) -> bool {
        self.is_ok()
    }

    fn permit(self) -> P {
        self.expect("a permit is free")
    }
}

impl Answer for bool {
    type Permit = ();

    #[inline]
    fn is_permit(&self) -> bool {
        *self
    }

    fn permit(self) {
        assert!(self, "a permit is free");
    }
}

/// Something that can be tried.
pub trait TryPeer: Send + Sync + 'static {
    /// What the tables call it.
    const NAME: &'static str;

    /// One with this many permits.
    fn with_permits(permits: usize) -> Self;

    /// Takes a permit if one is free.
    fn try_acquire(&self) -> impl Answer + '_;

    /// Gives back what does not do so by itself when it is dropped.
    #[inline]
    fn give_back(&self) {}
}

/// A semaphore, or what serves as one, that can be tried and awaited.
pub trait Peer: TryPeer {
    /// What a successful wait yields. It holds the permit until it is given back.
    type Held<'a>: Send;

    /// Waits for a permit.
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send;

    /// Waits for a permit or for the token: by default under
    /// [`CancellationToken::run_until_cancelled`], as there is no other way with a semaphore that
    /// knows no token.
    fn acquire_cancellable<'a>(
        &'a self,
        token: &'a CancellationToken,
    ) -> impl Future<Output: Send> + Send + 'a {
        token.run_until_cancelled(self.acquire())
    }
}

/// A peer whose permit can own a share of the semaphore.
pub trait OwnedPeer: Peer {
    /// Clones the `Arc` and tries; the result owns the permit.
    fn try_acquire_owned(self: &Arc<Self>) -> impl Answer + 'static;
}

/// A peer that a thread can wait for by blocking, in a way of its own.
pub trait BlockingPeer: TryPeer {
    /// Blocks the thread until there is a permit.
    fn wait(&self) -> impl Sized + '_;
}
