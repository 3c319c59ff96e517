//! Our other throttles, and others' semaphores as throttles of ours.

use std::future::Future;

use tollgate::{AcquireError, ChannelSemaphore, CondvarSemaphore, Pool, Throttle, TryThrottle};
use tollgate::{Permit, pool};

use super::{Answer, BlockingPeer, Ours, Peer, TryPeer};
use crate::condvar;

/// What is in a pool.
pub trait Item: Send + 'static {
    /// What the tables call its pool.
    const POOL: &'static str;

    /// One of them.
    fn make() -> Self;
}

impl Item for () {
    const POOL: &'static str = "Pool<()>";

    fn make() -> Self {}
}

impl Item for Vec<u8> {
    const POOL: &'static str = "Pool<Vec<u8>>";

    fn make() -> Self {
        vec![0; 1024]
    }
}

impl<T: Item> TryPeer for Pool<T> {
    const NAME: &'static str = T::POOL;

    fn with_permits(permits: usize) -> Self {
        Self::new((0..permits).map(|_| T::make()))
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self)
    }
}

impl<T: Item> Peer for Pool<T> {
    type Held<'a> = Result<pool::Permit<&'a Pool<T>, T>, AcquireError>;

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        Self::acquire(self)
    }
}

impl<T: Item> BlockingPeer for Pool<T> {
    #[inline]
    fn wait(&self) -> impl Sized + '_ {
        self.acquire().wait()
    }
}

impl TryPeer for ChannelSemaphore {
    const NAME: &'static str = "ChannelSemaphore";

    fn with_permits(permits: usize) -> Self {
        Self::new(permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self)
    }
}

impl Peer for ChannelSemaphore {
    type Held<'a> = Result<Permit<&'a ChannelSemaphore>, AcquireError>;

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        Self::acquire(self)
    }
}

impl BlockingPeer for ChannelSemaphore {
    #[inline]
    fn wait(&self) -> impl Sized + '_ {
        self.acquire().wait()
    }
}

impl TryPeer for CondvarSemaphore {
    const NAME: &'static str = "CondvarSemaphore";

    fn with_permits(permits: usize) -> Self {
        Self::new(permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self)
    }
}

impl BlockingPeer for CondvarSemaphore {
    #[inline]
    fn wait(&self) -> impl Sized + '_ {
        self.acquire().wait()
    }
}

/// The plain one, which cannot be cancelled or closed.
impl TryPeer for condvar::CondvarSemaphore {
    const NAME: &'static str = "mutex, condvar";

    fn with_permits(permits: usize) -> Self {
        Self::new(permits)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        Self::try_acquire(self)
    }
}

impl BlockingPeer for condvar::CondvarSemaphore {
    #[inline]
    fn wait(&self) -> impl Sized + '_ {
        self.acquire()
    }
}

impl BlockingPeer for Ours {
    #[inline]
    fn wait(&self) -> impl Sized + '_ {
        self.acquire().wait()
    }
}

/// Somebody's semaphore, entered by our trait.
pub struct AsThrottle<S>(S);

macro_rules! as_throttle {
    ($semaphore:ty, $name:literal) => {
        impl TryPeer for AsThrottle<$semaphore> {
            const NAME: &'static str = $name;

            fn with_permits(permits: usize) -> Self {
                Self(<$semaphore>::new(permits))
            }

            #[inline]
            fn try_acquire(&self) -> impl Answer + '_ {
                (&self.0).try_enter()
            }
        }

        impl Peer for AsThrottle<$semaphore> {
            type Held<'a> = Result<<&'a $semaphore as Throttle>::Permit, AcquireError>;

            #[inline]
            fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
                (&self.0).enter()
            }
        }
    };
}

as_throttle!(tokio::sync::Semaphore, "tokio's as a throttle");
as_throttle!(async_lock::Semaphore, "async-lock's as a throttle");
