//! Defines the semaphores, ours and others', our other throttles, and channels, where `recv` and `send` replace
//! acquire and release.
//!
//! *Idle* channels hold a mark for each free permit: to acquire is to receive. *Busy* channels hold a mark for each
//! permit that is taken: to acquire is to send, and a full channel makes the caller wait. A mark holds nothing, so it
//! does not give itself back.

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};

use crossbeam_queue::ArrayQueue;
use tokio_util::sync::CancellationToken;
use tollgate::{ChannelSemaphore, CondvarSemaphore, Pool, Throttle, TryThrottle};

use super::{Answer, BlockingPeer, OwnedPeer, Peer, TryPeer, peers};
use crate::floor;

/// Our semaphore.
pub type Ours = tollgate::Semaphore;

/// A channel with a mark for each free permit: its receiving end, and its sending end.
pub struct Idle<R, S>(R, S);

/// A channel with a mark for each permit that is taken.
pub struct Busy<S, R>(S, R);

/// async-channel, as [`tollgate::Pool`] uses it.
pub type IdleAsyncChannel = Idle<async_channel::Receiver<()>, async_channel::Sender<()>>;

/// async-channel, as [`tollgate::ChannelSemaphore`] uses it.
pub type BusyAsyncChannel = Busy<async_channel::Sender<()>, async_channel::Receiver<()>>;

/// flume as an idle channel.
pub type IdleFlume = Idle<flume::Receiver<()>, flume::Sender<()>>;

/// flume as a busy channel.
pub type BusyFlume = Busy<flume::Sender<()>, flume::Receiver<()>>;

/// std's `sync_channel` as a busy channel. It has one consumer, and callers that give back consume. So
/// its receiver is behind a mutex, and the mutex is part of the measurement.
pub type SyncChannel = Busy<mpsc::SyncSender<()>, Mutex<mpsc::Receiver<()>>>;

/// crossbeam's `ArrayQueue` as an idle channel. It has no wait.
pub struct IdleQueue(ArrayQueue<()>);

/// Another crate's semaphore, entered through our trait.
pub struct AsThrottle<S>(S);

/// Puts a mark for each permit into the channel.
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
    }
    "async-lock", async_lock::Semaphore {
        new(permits) Self::new(permits);
        try(it) Self::try_acquire(it);
        acquire(it) Self::acquire(it);
        // It clones the `Arc` itself.
        owned(it) it.try_acquire_arc();
    }
    // The fair one.
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
