//! The task that looks after a line while somebody is in it.
//!
//! One call is made at a time, for as many as are in front then; who comes meanwhile is in the next
//! one. If the task is dropped, with its runtime, everybody in line is told.
//!
//! A call of which nothing was heard is made again once: asking for the same id gives the same
//! lease. If that fails as well, what may have been granted is given back.
//!
//! Whoever is told that the store failed leaves no ticket behind, which those of other processes
//! would wait for: it is given back as soon as the store is there again, unless it has expired by
//! then.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
                    if self.core.release(&tickets).await.is_err() {
                        self.withdraw(tickets, self.core.ticket_lasts());
                    }
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
        let stirs = self.core.state().line.stirs();
        let mut sent = Instant::now();
        let mut answer = self.core.acquire(asked).await;
        let mut perhaps = answer.as_ref().is_err_and(|it| it.is_perhaps_charged());
        if perhaps {
            sent = Instant::now();
            answer = self.core.acquire(asked).await;
        }
        match answer {
            Ok(granted) => self.answer(&granted, sent, stirs),
            Err(error) => {
                perhaps |= error.is_perhaps_charged() || error.is_half_done();
                self.leave(asked, perhaps);
                let waiters = self.core.state().line.take(asked.len());
                fail(waiters, error);
            }
        }
    }

    /// Gives back what these have on the server: tickets that they got before, and what they were
    /// perhaps granted now.
    fn leave(&self, asked: &[Asked], perhaps: bool) {
        let left = asked.iter().filter(|one| perhaps || one.ticket > 0);
        let left: Vec<_> = left.map(|one| (one.id.clone(), one.n)).collect();
        let mut lasts = self.core.ticket_lasts();
        if perhaps {
            lasts = lasts.max(self.core.options.ttl);
        }
        self.withdraw(left, lasts);
    }

    fn answer(&self, granted: &Granted, sent: Instant, stirs: u64) {
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
            line.ask_again(self.core.again(now), stirs);
        }
        for (waiter, fencing) in admitted {
            let Waiter { id, n, answer, .. } = waiter;
            // Nobody takes it any more: then it is given back by dropping it.
            drop(answer.send(Ok(keep(&self.core, id, n, fencing, sent))));
        }
    }

    /// Gives back leases and tickets that last so long, without anybody waiting for it.
    fn withdraw(&self, all: Vec<(String, u32)>, lasts: Duration) {
        if all.is_empty() {
            return;
        }
        let core = Arc::clone(&self.core);
        self.core.store.spawn(async move {
            let expired = Instant::now() + lasts;
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
