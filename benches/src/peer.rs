//! One interface for all contenders, so that a row is written once: semaphores, ours and others', our other throttles,
//! and channels, for programs that write `recv` and `send` in place of acquire and release.
//!
//! Every method returns the crate's own future or permit, without a wrapper, whose cost would be
//! measured too. All are used in their fair, thread-safe form, as far as they have one.
//! [`TryPeer::give_back`] releases contenders without a permit that gives itself back, such as a
//! bare channel.
//!
//! *Idle* channels hold a mark for each free permit: to acquire is to receive. *Busy* ones hold a mark for each permit
//! that is out: to acquire is to send, and a full channel makes the sender wait. A mark is no guard, so none gives
//! itself back.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use crossbeam_queue::ArrayQueue;
use futures::executor::block_on;
use tokio_util::sync::CancellationToken;
use tollgate::{ChannelSemaphore, CondvarSemaphore, Pool, Throttle, TryThrottle};

use crate::floor;

pub use peers::limiters::*;

/// A contender that can be tried.
pub trait TryPeer: Send + Sync + 'static {
    /// Its name in the tables.
    const NAME: &'static str;

    /// Creates one with this many permits.
    fn with_permits(permits: usize) -> Self;

    /// Takes a permit if one is free.
    fn try_acquire(&self) -> impl Answer + '_;

    /// Gives back a permit that does not do so itself when it is dropped.
    #[inline]
    fn give_back(&self) {}
}

/// A semaphore, or a substitute, that can be tried and awaited.
pub trait Peer: TryPeer {
    /// Waits for a permit. The output holds it until it is given back.
    fn acquire(&self) -> impl Future<Output: Send> + Send;

    /// Waits for a permit or for the token. The default uses
    /// [`CancellationToken::run_until_cancelled`], the only way with a semaphore that does not
    /// support tokens.
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

/// A peer with a blocking wait of its own.
pub trait BlockingPeer: TryPeer {
    /// Blocks the thread until there is a permit.
    fn wait(&self) -> impl Sized + '_;
}

/// Peers and their operations: `new`, `try`, `give_back` if it has to, `acquire`, `cancel` if it supports tokens,
/// `owned` and `wait`.
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
                let back = $give_back;
                assert!(back.is_ok(), "what was taken goes back");
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

/// Ours.
pub type Ours = tollgate::Semaphore;

/// A channel with a mark for each free permit: the end that gives marks, and the end that takes
/// them back.
pub struct Idle<R, S>(R, S);

/// A channel with a mark for each permit that is out.
pub struct Busy<S, R>(S, R);

/// async-channel, as [`tollgate::Pool`] uses it.
pub type IdleAsyncChannel = Idle<async_channel::Receiver<()>, async_channel::Sender<()>>;

/// async-channel, as [`tollgate::ChannelSemaphore`] uses it.
pub type BusyAsyncChannel = Busy<async_channel::Sender<()>, async_channel::Receiver<()>>;

/// flume, idle.
pub type IdleFlume = Idle<flume::Receiver<()>, flume::Sender<()>>;

/// flume, busy.
pub type BusyFlume = Busy<flume::Sender<()>, flume::Receiver<()>>;

/// std's `sync_channel`, in the busy form. It has one consumer, and callers that give back consume;
/// so its receiver is behind a mutex, and the mutex is part of the measurement.
pub type SyncChannel = Busy<mpsc::SyncSender<()>, Mutex<mpsc::Receiver<()>>>;

/// crossbeam's `ArrayQueue`, in the idle form. It offers no wait.
pub struct IdleQueue(ArrayQueue<()>);

/// Another crate's semaphore, entered through our trait.
pub struct AsThrottle<S>(S);

/// Fills the channel with a mark for each permit.
fn filled<C, E>(channel: C, permits: usize, give_back: impl Fn(&C) -> Result<(), E>) -> C {
    assert!((0..permits).all(|_| give_back(&channel).is_ok()), "no room");
    channel
}

peers! {
    "tollgate", tollgate::Semaphore {
        new(permits) Self::new(permits);
        try(it) Self::try_acquire(it);
        acquire(it) Self::acquire(it);
        cancel(it, token) Self::acquire(it).cancel_on(token);
        owned(it) Self::try_acquire_owned(Arc::clone(it));
        wait(it) Self::acquire(it).wait();
    }
    "tokio", tokio::sync::Semaphore {
        new(permits) Self::new(permits);
        try(it) Self::try_acquire(it);
        acquire(it) Self::acquire(it);
        owned(it) Self::try_acquire_owned(Arc::clone(it));
        // It has no blocking form of its own.
        wait(it) block_on(Self::acquire(it));
    }
    "async-lock", async_lock::Semaphore {
        new(permits) Self::new(permits);
        try(it) Self::try_acquire(it);
        acquire(it) Self::acquire(it);
        // It clones the `Arc` itself.
        owned(it) it.try_acquire_arc();
        wait(it) it.acquire_blocking();
    }
    // A fair one.
    "futures-intrusive", futures_intrusive::sync::Semaphore {
        new(permits) Self::new(true, permits);
        try(it) Self::try_acquire(it, 1);
        acquire(it) Self::acquire(it, 1);
    }
    "asyncband", asyncband::semaphore::Semaphore {
        new(permits) Self::new(permits);
        try(it) Self::try_acquire(it, 1);
        acquire(it) Self::acquire(it, 1);
        owned(it) Self::try_acquire_owned(Arc::clone(it), 1);
    }
    "Pool<()>", Pool<()> {
        new(permits) Self::new((0..permits).map(drop));
        try(it) Self::try_acquire(it);
        acquire(it) Self::acquire(it);
        wait(it) Self::acquire(it).wait();
    }
    "Pool<Vec<u8>>", Pool<Vec<u8>> {
        new(permits) Self::new((0..permits).map(|_| vec![0; 1024]));
        try(it) Self::try_acquire(it);
        acquire(it) Self::acquire(it);
        wait(it) Self::acquire(it).wait();
    }
    "ChannelSemaphore", ChannelSemaphore {
        new(permits) Self::new(permits);
        try(it) Self::try_acquire(it);
        acquire(it) Self::acquire(it);
        wait(it) Self::acquire(it).wait();
    }
    "CondvarSemaphore", CondvarSemaphore {
        new(permits) Self::new(permits);
        try(it) Self::try_acquire(it);
        wait(it) Self::acquire(it).wait();
    }
    // The least work of a semaphore over one word.
    "floor: load, CAS, fetch_add", floor::Floor {
        new(permits) Self::new(permits);
        try(it) it.try_take();
    }
    // The plain one, which cannot be cancelled or closed.
    "mutex, condvar", floor::CondvarSemaphore {
        new(permits) Self::new(permits);
        try(it) Self::try_acquire(it);
        wait(it) Self::acquire(it);
    }
    "tokio's as a throttle", AsThrottle<tokio::sync::Semaphore> {
        new(permits) Self(tokio::sync::Semaphore::new(permits));
        try(it) (&it.0).try_enter();
        acquire(it) (&it.0).enter();
    }
    "async-lock's as a throttle", AsThrottle<async_lock::Semaphore> {
        new(permits) Self(async_lock::Semaphore::new(permits));
        try(it) (&it.0).try_enter();
        acquire(it) (&it.0).enter();
    }
    "async-channel, idle", IdleAsyncChannel {
        new(permits) {
            let (returns, idle) = async_channel::bounded(permits);
            Idle(idle, filled(returns, permits, |it| it.try_send(())))
        };
        try(it) it.0.try_recv();
        give_back(it) it.1.try_send(());
        acquire(it) it.0.recv();
        wait(it) it.0.recv_blocking();
    }
    "async-channel, busy", BusyAsyncChannel {
        new(permits) {
            let (enter, leave) = async_channel::bounded(permits);
            Busy(enter, leave)
        };
        try(it) it.0.try_send(());
        give_back(it) it.1.try_recv();
        acquire(it) it.0.send(());
        wait(it) it.0.send_blocking(());
    }
    "flume, idle", IdleFlume {
        new(permits) {
            let (returns, idle) = flume::bounded(permits);
            Idle(idle, filled(returns, permits, |it| it.try_send(())))
        };
        try(it) it.0.try_recv();
        give_back(it) it.1.try_send(());
        acquire(it) it.0.recv_async();
        wait(it) it.0.recv();
    }
    "flume, busy", BusyFlume {
        new(permits) {
            let (enter, leave) = flume::bounded(permits);
            Busy(enter, leave)
        };
        try(it) it.0.try_send(());
        give_back(it) it.1.try_recv();
        acquire(it) it.0.send_async(());
        wait(it) it.0.send(());
    }
    "sync_channel, mutex, busy", SyncChannel {
        new(permits) {
            let (enter, leave) = mpsc::sync_channel(permits);
            Busy(enter, Mutex::new(leave))
        };
        try(it) it.0.try_send(());
        give_back(it) it.1.lock().unwrap_or_else(PoisonError::into_inner).try_recv();
        wait(it) it.0.send(());
    }
    "ArrayQueue, idle", IdleQueue {
        new(permits) IdleQueue(filled(ArrayQueue::new(permits), permits, |it| it.push(())));
        try(it) it.0.pop();
        give_back(it) it.0.push(());
    }
}
