//! Defines one interface for all contenders, so that a row is written once.
//!
//! Every method returns the crate's own future or permit, not a wrapper: the wrapper would be
//! measured too. All are used in their fair, thread-safe form, as far as they have one. A
//! contender without a permit that gives itself back, such as a bare channel, uses
//! [`TryPeer::give_back`].

mod rates;
mod semaphores;

use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use self::rates::{
    ByArc, ByReference, Governor, LeakyBucket, Limiter, MutexRing, OurFairQueue, OurLimiter,
    OurLog, Rate, SharedRateLimit, TryLimiter, UpkeptGovernor, WaitLimiter, governor_quota,
    tower_rate,
};
pub use self::semaphores::{
    AsThrottle, BusyAsyncChannel, BusyFlume, IdleAsyncChannel, IdleFlume, IdleQueue, Ours,
    SyncChannel,
};

/// The result of a try: the crate's own `Result` or `Option`, without conversion.
pub trait Answer: Send {
    /// Returns whether a permit was available.
    fn is_permit(&self) -> bool;
}

impl<P: Send> Answer for Option<P> {
    #[inline]
    fn is_permit(&self) -> bool {
        self.is_some()
    }
}

impl<P: Send, E: Send> Answer for Result<P, E> {
    #[inline]
    fn is_permit(&self) -> bool {
        self.is_ok()
    }
}

impl Answer for bool {
    #[inline]
    fn is_permit(&self) -> bool {
        *self
    }
}

/// A peer that can be tried.
pub trait TryPeer: Send + Sync + 'static {
    /// The name in the tables.
    const NAME: &'static str;

    /// Creates a peer with this many permits.
    fn with_permits(permits: usize) -> Self;

    /// Takes a permit if one is free.
    fn try_acquire(&self) -> impl Answer + '_;

    /// Gives back a permit that does not return itself when it is dropped.
    #[inline]
    fn give_back(&self) {}
}

/// A semaphore, or a substitute for one, that can be tried and awaited.
pub trait Peer: TryPeer {
    /// Waits for a permit. The output holds it until it is given back.
    fn acquire(&self) -> impl Future<Output: Send> + Send;

    /// Waits for a permit or for the token. By default it uses
    /// [`CancellationToken::run_until_cancelled`], because a semaphore that does not know tokens
    /// offers no other way.
    fn acquire_cancellable<'a>(
        &'a self,
        token: &'a CancellationToken,
    ) -> impl Future<Output: Send> + Send + 'a {
        token.run_until_cancelled(self.acquire())
    }
}

/// A peer whose permit can own a share of the semaphore.
pub trait OwnedPeer: TryPeer {
    /// Clones the `Arc` and tries; the result owns the permit.
    fn try_acquire_owned(self: &Arc<Self>) -> impl Answer + 'static;
}

/// A peer with a blocking wait of its own for threads.
pub trait BlockingPeer: TryPeer {
    /// Blocks the thread until a permit is available.
    fn wait(&self) -> impl Sized + '_;
}

/// Lists peers, and how each implements its operations: `new`, `try`, `give_back` if necessary, `acquire`, `cancel`
/// if it knows tokens, `owned` and `wait`.
macro_rules! peers {
    ($($name:expr, $type:ty {
        new($permits:ident) $new:expr;
        try($tried:ident) $try:expr;
        $(give_back($given:ident) $give_back:expr;)?
        $(acquire($awaited:ident) $acquire:expr;
        $(cancel($cancelled:ident, $token:ident) $cancel:expr;)?)?
        $(owned($shared:ident) $owned:expr;)?
        $(wait($blocking:ident) $wait:expr;)?
    })*) => {$(
        impl TryPeer for $type {
            const NAME: &'static str = $name;

            fn with_permits($permits: usize) -> Self {
                $new
            }

            #[inline]
            fn try_acquire(&self) -> impl Answer + '_ {
                let $tried = self;
                $try
            }

            $(#[inline]
            fn give_back(&self) {
                let $given = self;
                let _ = $give_back;
            })?
        }

        $(impl Peer for $type {
            #[inline]
            fn acquire(&self) -> impl Future<Output: Send> + Send {
                let $awaited = self;
                $acquire
            }

            $(#[inline]
            fn acquire_cancellable<'a>(
                &'a self,
                $token: &'a CancellationToken,
            ) -> impl Future<Output: Send> + Send + 'a {
                let $cancelled = self;
                $cancel
            })?
        })?

        $(impl OwnedPeer for $type {
            #[inline]
            fn try_acquire_owned(self: &Arc<Self>) -> impl Answer + 'static {
                let $shared = self;
                $owned
            }
        })?

        $(impl BlockingPeer for $type {
            #[inline]
            fn wait(&self) -> impl Sized + '_ {
                let $blocking = self;
                $wait
            }
        })?
    )*};
}
pub(crate) use peers;
