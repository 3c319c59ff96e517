//! The asynchronous semaphores, ours and others'.

use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Answer, OwnedPeer, Peer, TryPeer};

/// Ours.
pub type Ours = tollgate::Semaphore;

impl TryPeer for tollgate::Semaphore {
    const NAME: &'static str = "tollgate";

    fn with_permits(permits: usize) -> Self {
        Self::new(permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self)
    }
}

impl Peer for tollgate::Semaphore {
    type Held<'a> = Result<tollgate::Permit<&'a tollgate::Semaphore>, tollgate::AcquireError>;

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        Self::acquire(self)
    }

    #[inline]
    fn acquire_cancellable<'a>(
        &'a self,
        token: &'a CancellationToken,
    ) -> impl Future<Output: Send> + Send + 'a {
        Self::acquire(self).cancel_on(token)
    }
}

impl OwnedPeer for tollgate::Semaphore {
    #[inline]
    fn try_acquire_owned(self: &Arc<Self>) -> impl Answer + 'static {
        Self::try_acquire_owned(Arc::clone(self))
    }
}

impl TryPeer for tokio::sync::Semaphore {
    const NAME: &'static str = "tokio";

    fn with_permits(permits: usize) -> Self {
        Self::new(permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self)
    }
}

impl Peer for tokio::sync::Semaphore {
    type Held<'a> = Result<tokio::sync::SemaphorePermit<'a>, tokio::sync::AcquireError>;

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

impl TryPeer for async_lock::Semaphore {
    const NAME: &'static str = "async-lock";

    fn with_permits(permits: usize) -> Self {
        Self::new(permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self)
    }
}

impl Peer for async_lock::Semaphore {
    type Held<'a> = async_lock::SemaphoreGuard<'a>;

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

impl TryPeer for futures_intrusive::sync::Semaphore {
    const NAME: &'static str = "futures-intrusive";

    fn with_permits(permits: usize) -> Self {
        let fair = true;
        Self::new(fair, permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self, 1)
    }
}

impl Peer for futures_intrusive::sync::Semaphore {
    type Held<'a> = futures_intrusive::sync::SemaphoreReleaser<'a>;

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        Self::acquire(self, 1)
    }
}

impl TryPeer for asyncband::semaphore::Semaphore {
    const NAME: &'static str = "asyncband";

    fn with_permits(permits: usize) -> Self {
        Self::new(permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self, 1)
    }
}

impl Peer for asyncband::semaphore::Semaphore {
    type Held<'a> = asyncband::semaphore::SemaphorePermit<'a>;

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
