//! [`QueueState`]: the state under the lock of a limiter, that is, the [ledger](Ledger) and the
//! waiters.

use crate::algorithm::{Ledger, Receipt};
use crate::error::{AcquireError, ErrorKind};
use crate::time::Tick;
use crate::wait_queue::{Units, WaitQueue, WaiterId};

/// The state of a waiter: a call that waits, and then its outcome until the waiter collects it.
#[derive(Clone, Copy, Default)]
pub(super) enum QueueEntry {
    Waiting(Request),
    Charged(Receipt),
    /// The waiter asks for more than the lowered capacity.
    Refused {
        capacity: u64,
    },
    /// The runtime of the limiter's time has ended.
    #[default]
    RuntimeEnded,
}

/// The request of a waiter.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) cost: u64,
    /// The tick at which it counts as joined.
    pub(super) at: Tick,
    /// The total cost of all waiters that had joined by then, itself included.
    pub(super) joined: u128,
}

impl QueueEntry {
    fn request(self) -> Option<Request> {
        match self {
            Self::Waiting(request) => Some(request),
            _ => None,
        }
    }
}

impl Units for QueueEntry {
    fn units(self) -> u64 {
        self.request().map_or(0, |request| request.cost)
    }
}

/// The state under the lock.
pub(super) struct QueueState {
    /// What is owed. Only the guard changes it.
    pub(super) ledger: Ledger,
    pub(super) waiters: WaitQueue<QueueEntry>,
    /// The total cost of the waiters.
    pub(super) queued: u128,
    /// The total cost of all waiters that ever joined.
    pub(super) joined: u128,
    /// Whether the limiter is closed. A waiter without an entry was then released by `close`.
    pub(super) closed: bool,
    /// The tick of the last rescheduling of the waiters: none was due before it.
    pub(super) timed: Tick,
}

impl QueueState {
    pub(super) fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            waiters: WaitQueue::new(),
            queued: 0,
            joined: 0,
            closed: false,
            timed: Tick::default(),
        }
    }

    /// Returns the request of the head.
    pub(super) fn head(&self) -> Option<Request> {
        self.waiters.head().and_then(|(_, entry)| entry.request())
    }

    /// Returns the request of a waiter that still waits.
    pub(super) fn request(&self, id: &WaiterId) -> Option<Request> {
        self.waiters.cost(id).and_then(QueueEntry::request)
    }

    /// Returns the requests of the waiters before a waiter.
    pub(super) fn before(&self, id: &WaiterId) -> impl Iterator<Item = Request> {
        self.waiters.before(id).filter_map(QueueEntry::request)
    }

    /// Returns the outcome of a waiter that no longer waits.
    pub(super) fn collect(&mut self, id: &WaiterId) -> Result<Receipt, AcquireError> {
        match self.waiters.collect(id) {
            Some(QueueEntry::Charged(receipt)) => Ok(receipt),
            Some(QueueEntry::Refused { capacity }) => Err(AcquireError::exceeds_capacity(capacity)),
            Some(QueueEntry::RuntimeEnded) => Err(AcquireError::new(ErrorKind::RuntimeEnded)),
            None | Some(QueueEntry::Waiting(_)) => Err(AcquireError::new(ErrorKind::Closed)),
        }
    }
}
