//! Channels and a queue, bare: what one has who writes `recv` and `send` where an acquire and a
//! release would be.
//!
//! *Idle* ones hold a mark for each free permit: to acquire is to receive. *Busy* ones hold a mark
//! for each permit that is out: to acquire is to send, and a full channel makes one wait. No mark
//! holds anything, so none gives itself back.

use std::future::Future;
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};

use crossbeam_queue::ArrayQueue;

use super::{Answer, BlockingPeer, Peer, TryPeer};

/// async-channel, as [`tollgate::Pool`] uses it.
pub struct IdleAsyncChannel {
    idle: async_channel::Receiver<()>,
    returns: async_channel::Sender<()>,
}

impl TryPeer for IdleAsyncChannel {
    const NAME: &'static str = "async-channel, idle";

    fn with_permits(permits: usize) -> Self {
        let (returns, idle) = async_channel::bounded(permits);
        for _ in 0..permits {
            returns.try_send(()).expect("there is a place for each");
        }
        Self { idle, returns }
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        self.idle.try_recv()
    }

    #[inline]
    fn give_back(&self) {
        let _ = self.returns.try_send(());
    }
}

impl Peer for IdleAsyncChannel {
    type Held<'a> = Result<(), async_channel::RecvError>;

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        self.idle.recv()
    }
}

impl BlockingPeer for IdleAsyncChannel {
    #[inline]
    fn wait(&self) -> impl Sized + '_ {
        self.idle.recv_blocking()
    }
}

/// async-channel, as [`tollgate::ChannelSemaphore`] uses it.
pub struct BusyAsyncChannel {
    enter: async_channel::Sender<()>,
    leave: async_channel::Receiver<()>,
}

impl TryPeer for BusyAsyncChannel {
    const NAME: &'static str = "async-channel, busy";

    fn with_permits(permits: usize) -> Self {
        let (enter, leave) = async_channel::bounded(permits);
        Self { enter, leave }
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        self.enter.try_send(())
    }

    #[inline]
    fn give_back(&self) {
        let _ = self.leave.try_recv();
    }
}

impl Peer for BusyAsyncChannel {
    type Held<'a> = Result<(), async_channel::SendError<()>>;

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        self.enter.send(())
    }
}

impl BlockingPeer for BusyAsyncChannel {
    #[inline]
    fn wait(&self) -> impl Sized + '_ {
        self.enter.send_blocking(())
    }
}

/// flume, with a mark for each free permit.
pub struct IdleFlume {
    idle: flume::Receiver<()>,
    returns: flume::Sender<()>,
}

impl TryPeer for IdleFlume {
    const NAME: &'static str = "flume, idle";

    fn with_permits(permits: usize) -> Self {
        let (returns, idle) = flume::bounded(permits);
        for _ in 0..permits {
            returns.try_send(()).expect("there is a place for each");
        }
        Self { idle, returns }
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        self.idle.try_recv()
    }

    #[inline]
    fn give_back(&self) {
        let _ = self.returns.try_send(());
    }
}

impl Peer for IdleFlume {
    type Held<'a> = Result<(), flume::RecvError>;

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        self.idle.recv_async()
    }
}

impl BlockingPeer for IdleFlume {
    #[inline]
    fn wait(&self) -> impl Sized + '_ {
        self.idle.recv()
    }
}

/// flume, with a mark for each permit that is out.
pub struct BusyFlume {
    enter: flume::Sender<()>,
    leave: flume::Receiver<()>,
}

impl TryPeer for BusyFlume {
    const NAME: &'static str = "flume, busy";

    fn with_permits(permits: usize) -> Self {
        let (enter, leave) = flume::bounded(permits);
        Self { enter, leave }
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        self.enter.try_send(())
    }

    #[inline]
    fn give_back(&self) {
        let _ = self.leave.try_recv();
    }
}

impl Peer for BusyFlume {
    type Held<'a> = Result<(), flume::SendError<()>>;

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
        self.enter.send_async(())
    }
}

impl BlockingPeer for BusyFlume {
    #[inline]
    fn wait(&self) -> impl Sized + '_ {
        self.enter.send(())
    }
}

/// std's `sync_channel`, the busy way. It has one consumer, and callers that give back consume; so
/// its receiver is behind a mutex, and the mutex is part of what is measured.
pub struct SyncChannel {
    enter: mpsc::SyncSender<()>,
    leave: Mutex<mpsc::Receiver<()>>,
}

impl TryPeer for SyncChannel {
    const NAME: &'static str = "sync_channel, mutex, busy";

    fn with_permits(permits: usize) -> Self {
        let (enter, leave) = mpsc::sync_channel(permits);
        let leave = Mutex::new(leave);
        Self { enter, leave }
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        self.enter.try_send(())
    }

    #[inline]
    fn give_back(&self) {
        let leave = self.leave.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = leave.try_recv();
    }
}

impl BlockingPeer for SyncChannel {
    #[inline]
    fn wait(&self) -> impl Sized + '_ {
        self.enter.send(())
    }
}

/// crossbeam's `ArrayQueue`, the idle way. Nobody can wait for it.
pub struct IdleQueue(ArrayQueue<()>);

impl TryPeer for IdleQueue {
    const NAME: &'static str = "ArrayQueue, idle";

    fn with_permits(permits: usize) -> Self {
        let idle = ArrayQueue::new(permits);
        for _ in 0..permits {
            idle.push(()).expect("there is a place for each");
        }
        Self(idle)
    }

    #[inline]
    fn try_acquire(&self) -> impl Answer + '_ {
        self.0.pop()
    }

    #[inline]
    fn give_back(&self) {
        let _ = self.0.push(());
    }
}
