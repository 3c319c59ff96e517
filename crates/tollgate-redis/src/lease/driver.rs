//! The task that looks after a line while somebody is in it.
//!
//! One call is made at a time, for as many as are in front then; who comes meanwhile is in the next
//! one. If the task is dropped, with its runtime, everybody in line is told.
//!
//! A call of which nothing was heard is made again once: asking for the same id gives the same
//! lease. If that fails as well, what may have been granted is given back.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use tollgate::{AcquireError, ErrorKind};

use super::core::{Core, State};
use super::keeper::keep;
use super::line::{Asked, Next, Waiter};
use super::reply::Granted;
use crate::error::StoreError;

struct Driver {
    core: Arc<Core>,
    done: bool,
}

/// Has a task look after the line, if none does: to be spawned under no lock, since a runtime that
/// is gone drops it at once.
#[must_use]
pub(super) fn drive(
    core: &Arc<Core>,
    state: &mut State,
) -> Option<impl Future<Output = ()> + use<>> {
    if state.driven {
        core.stirred.notify_one();
        return None;
    }
    state.driven = true;
    let driver = Driver {
        core: Arc::clone(core),
        done: false,
    };
    Some(driver.run())
}

impl Driver {
    async fn run(mut self) {
        loop {
            match self.next() {
                Next::Nothing => {
                    self.done = true;
                    return;
                }
                Next::Leave(tickets) => {
                    // If that fails, they expire.
                    let _ = self.core.release(&tickets).await;
                }
                Next::Ask(asked) => self.ask(&asked).await,
                Next::Wait(again) => {
                    let stirred = self.core.stirred.notified();
                    let _ = tokio::time::timeout_at(again.into(), stirred).await;
                }
            }
        }
    }

    fn next(&self) -> Next {
        let (next, refused) = {
            let state = &mut *self.core.state();
            if state.closed {
                state.line.close();
            }
            let next = state.line.next(state.limit(), Instant::now());
            if next == Next::Nothing {
                // Under the lock: whoever comes next begins anew.
                state.driven = false;
            }
            (next, std::mem::take(&mut state.line.refused))
        };
        for (waiter, error) in refused {
            let _ = waiter.answer.send(Err(error));
        }
        next
    }

    async fn ask(&self, asked: &[Asked]) {
        let mut sent = Instant::now();
        let mut answer = self.core.acquire(asked).await;
        if answer
            .as_ref()
            .is_err_and(|error| error.is_perhaps_charged())
        {
            sent = Instant::now();
            answer = match self.core.acquire(asked).await {
                // It was perhaps executed the first time.
                Err(error) if !error.is_perhaps_charged() => {
                    self.withdraw(asked);
                    Err(error)
                }
                answer => answer,
            };
        }
        match answer {
            Ok(granted) => self.answer(&granted, sent),
            Err(error) => {
                if error.is_perhaps_charged() {
                    self.withdraw(asked);
                }
                let waiters = self.core.state().line.take(asked.len());
                fail(waiters, error);
            }
        }
    }

    fn answer(&self, granted: &Granted, sent: Instant) {
        let now = Instant::now();
        let mut admitted = Vec::new();
        {
            let state = &mut *self.core.state();
            let line = &mut state.line;
            let mut kept = Vec::new();
            let asked = line.take(granted.places.len());
            for (mut waiter, place) in asked.into_iter().zip(&granted.places) {
                waiter.ticket = place.ticket;
                let grace = granted.grace;
                if let Some(fencing) = place.fencing {
                    admitted.push((waiter, fencing));
                } else if waiter.tries {
                    line.refuse(waiter, AcquireError::new(ErrorKind::NoPermits));
                } else if waiter.until.is_some_and(|until| until < now + grace) {
                    line.refuse(waiter, AcquireError::would_take(grace));
                } else {
                    kept.push(waiter);
                }
            }
            line.put_back(kept);
            line.again = Some(self.core.again(now));
        }
        for (waiter, fencing) in admitted {
            let Waiter { id, n, answer, .. } = waiter;
            // Nobody takes it any more: then it is given back by dropping it.
            drop(answer.send(Ok(keep(&self.core, id, n, fencing, sent))));
        }
    }

    /// Gives back what may have been granted to these, without anybody waiting for it.
    fn withdraw(&self, asked: &[Asked]) {
        let core = Arc::clone(&self.core);
        let all: Vec<_> = asked.iter().map(|one| (one.id.clone(), one.n)).collect();
        self.core.store.spawn(async move {
            let expired = Instant::now() + core.options.ttl;
            core.release_until(&all, expired).await;
        });
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.done {
            let waiters = {
                let state = &mut *self.core.state();
                state.driven = false;
                state.line.take(usize::MAX)
            };
            fail(waiters, StoreError::NoRuntime);
        }
    }
}

/// Tells them that the store failed. Under no lock.
fn fail(waiters: Vec<Waiter>, error: StoreError) {
    for waiter in waiters {
        let _ = waiter.answer.send(Err(error.into()));
    }
}
