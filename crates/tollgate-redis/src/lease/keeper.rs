//! The task that renews a lease, and gives it back in the end.
//!
//! 1. One task does both, one after the other, so no renewal comes after the release.
//! 2. The lease is held until a time by the clock of this process: one ttl from before the call was
//!    sent that last granted or renewed it, less a margin. On the server it expires later: one ttl
//!    after that call was executed.
//! 3. Once that time is over, the lease is lost, whatever a later answer says. Whoever asks and
//!    whoever prolongs read the clock under the same lock, so nobody hears otherwise later.
//! 4. If the task is dropped, with its runtime, nobody renews any more: then the lease is lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::core::Core;
use super::guard::Lease;
use crate::error::StoreError;

/// One of so many parts of the ttl is the margin: timers are late, and clocks do not run alike.
const MARGIN: u32 = 16;

/// What a lease and its task share.
pub(super) struct Held {
    id: String,
    count: u32,
    fencing: u64,
    lost: CancellationToken,
    /// Given back, or to be so.
    ended: CancellationToken,
    /// None for a lease of no permits, which is held for ever.
    until: Option<Mutex<Instant>>,
}

impl Held {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn fencing(&self) -> u64 {
        self.fencing
    }

    pub(super) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    pub(super) fn is_lost(&self) -> bool {
        let is_late = |until: MutexGuard<'_, Instant>| Instant::now() >= *until;
        self.lost.is_cancelled() || self.until().is_some_and(is_late)
    }

    fn until(&self) -> Option<MutexGuard<'_, Instant>> {
        let until = self.until.as_ref()?;
        // Nothing panics while it is held.
        Some(until.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether it could be prolonged: not if it was over already.
    fn prolong(&self, later: Instant) -> bool {
        self.until().is_some_and(|mut until| {
            let held = Instant::now() < *until;
            if held {
                *until = later;
            }
            held
        })
    }
}

/// A lease that was granted by a call that was sent then.
pub(super) fn keep(core: &Arc<Core>, id: String, count: u32, fencing: u64, sent: Instant) -> Lease {
    let (released, receiver) = oneshot::channel();
    let held = Arc::new(Held {
        id,
        count,
        fencing,
        lost: CancellationToken::new(),
        ended: CancellationToken::new(),
        until: Some(Mutex::new(sent + held_for(core.options.ttl))),
    });
    let keeper = Keeper {
        core: Arc::clone(core),
        held: Arc::clone(&held),
        sent,
        done: false,
    };
    core.store.spawn(keeper.run(released));
    Lease::new(held, receiver)
}

/// A lease of no permits.
pub(super) fn nothing() -> Lease {
    let (released, receiver) = oneshot::channel();
    let _ = released.send(Ok(()));
    let held = Held {
        id: String::new(),
        count: 0,
        fencing: 0,
        lost: CancellationToken::new(),
        ended: CancellationToken::new(),
        until: None,
    };
    Lease::new(Arc::new(held), receiver)
}

fn held_for(ttl: Duration) -> Duration {
    ttl - ttl / MARGIN
}

struct Keeper {
    core: Arc<Core>,
    held: Arc<Held>,
    /// When the last call was sent that was answered, or is on its way.
    sent: Instant,
    done: bool,
}

/// How holding a lease ended.
enum End {
    GivenBack,
    Lost,
}

impl Keeper {
    async fn run(mut self, released: oneshot::Sender<Result<(), StoreError>>) {
        let held = Arc::clone(&self.held);
        let end = match held.ended.run_until_cancelled(self.renew()).await {
            None => End::GivenBack,
            Some(()) => End::Lost,
        };
        let all = [(held.id.clone(), held.count)];
        // By then it has expired on the server.
        let expired = Instant::now() + self.core.options.ttl;
        match end {
            End::GivenBack => {
                self.done = true;
                let outcome = self.core.release(&all).await;
                let again = outcome.is_err();
                let _ = released.send(outcome);
                if again {
                    self.core.release_until(&all, expired).await;
                }
            }
            End::Lost => {
                self.lose();
                let _ = released.send(Ok(()));
                // A renewal may have been executed of which nothing was heard.
                self.core.release_until(&all, expired).await;
            }
        }
    }

    /// Until it is lost.
    async fn renew(&mut self) {
        let core = Arc::clone(&self.core);
        let held = Arc::clone(&self.held);
        let ttl = core.options.ttl;
        let mut next = self.sent + third(ttl);
        loop {
            let until = self.sent + held_for(ttl);
            tokio::time::sleep_until(next.min(until).into()).await;
            let sent = Instant::now();
            if sent >= until {
                return;
            }
            let renewal = core.renew(&held.id, held.count, held.fencing);
            let Ok(answer) = tokio::time::timeout_at(until.into(), renewal).await else {
                return;
            };
            match answer {
                Ok(true) if held.prolong(sent + held_for(ttl)) => {
                    self.sent = sent;
                    next = sent + third(ttl);
                }
                Ok(_) => return,
                Err(_) => next = Instant::now() + core.pause(),
            }
        }
    }

    fn lose(&mut self) {
        self.done = true;
        self.held.lost.cancel();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.done {
            self.lose();
        }
    }
}

/// Somewhat less than a third, so that a fleet does not renew all at once.
fn third(ttl: Duration) -> Duration {
    (ttl / 3).mul_f64(1.0 - fastrand::f64() / 10.0)
}
