//! One face for the asynchronous semaphores, so that a row is written once.
//!
//! Every method hands out the crate's own future or permit, not a wrapper: a wrapper would be measured with it. All are
//! used as their fair, thread-safe selves.

use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

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

/// A semaphore that can be tried and awaited.
pub trait Peer: Send + Sync + 'static {
    /// What the tables call it.
    const NAME: &'static str;

    /// What a successful wait yields. It holds the permit until dropped.
    type Held<'a>: Send;

    /// A semaphore with this many permits.
    fn with_permits(permits: usize) -> Self;

    /// Takes a permit if one is free.
    fn try_acquire(&self) -> impl Answer + '_;

    /// Waits for a permit.
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send;

    /// Waits for a permit or for the token: by default under [`CancellationToken::run_until_cancelled`], as there is no
    /// other way with a semaphore that knows no token.
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

/// Ours.
pub type Ours = tollgate::Semaphore;

impl Peer for tollgate::Semaphore {
    const NAME: &'static str = "tollgate";
    type Held<'a> = Result<tollgate::Permit<'a>, tollgate::AcquireError>;

    fn with_permits(permits: usize) -> Self {
        Self::new(permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self)
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        Self::acquire(self)
    }

    #[inline]
    fn acquire_cancellable<'a>(
        &'a self,
        token: &'a CancellationToken,
    ) -> impl Future<Output: Send> + Send + 'a {
        Self::acquire_cancellable(self, token)
    }
}

impl OwnedPeer for tollgate::Semaphore {
    #[inline]
    fn try_acquire_owned(self: &Arc<Self>) -> impl Answer + 'static {
        Self::try_acquire_owned(Arc::clone(self))
    }
}

impl Peer for tokio::sync::Semaphore {
    const NAME: &'static str = "tokio";
    type Held<'a> = Result<tokio::sync::SemaphorePermit<'a>, tokio::sync::AcquireError>;

    fn with_permits(permits: usize) -> Self {
        Self::new(permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self)
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        Self::acquire(self)
    }
}

impl OwnedPeer for tokio::sync::Semaphore {
    #[inline]
    fn try_acquire_owned(self: &Arc<Self>) -> impl Answer + 'static {
        Self::try_acquire_owned(Arc::clone(self))
    }
}

impl Peer for async_lock::Semaphore {
    const NAME: &'static str = "async-lock";
    type Held<'a> = async_lock::SemaphoreGuard<'a>;

    fn with_permits(permits: usize) -> Self {
        Self::new(permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self)
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        Self::acquire(self)
    }
}

impl OwnedPeer for async_lock::Semaphore {
    #[inline]
    fn try_acquire_owned(self: &Arc<Self>) -> impl Answer + 'static {
        // It clones the `Arc` itself.
        self.try_acquire_arc()
    }
}

impl Peer for futures_intrusive::sync::Semaphore {
    const NAME: &'static str = "futures-intrusive";
    type Held<'a> = futures_intrusive::sync::SemaphoreReleaser<'a>;

    fn with_permits(permits: usize) -> Self {
        let fair = true;
        Self::new(fair, permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self, 1)
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        Self::acquire(self, 1)
    }
}

impl Peer for asyncband::semaphore::Semaphore {
    const NAME: &'static str = "asyncband";
    type Held<'a> = asyncband::semaphore::SemaphorePermit<'a>;

    fn with_permits(permits: usize) -> Self {
        Self::new(permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self, 1)
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        Self::acquire(self, 1)
    }
}

impl OwnedPeer for asyncband::semaphore::Semaphore {
    #[inline]
    fn try_acquire_owned(self: &Arc<Self>) -> impl Answer + 'static {
        Self::try_acquire_owned(Arc::clone(self), 1)
    }
}
