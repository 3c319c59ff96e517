//! The wait of a caller of a set: for the turns of the limits that lack something, and in the
//! [queue](super::waiting) of the set.
//!
//! 1. A caller that waits for several limits joins the line of each so that its turns are due at about the same
//!    time.
//! 2. A charge that has become too old meanwhile is given back, and the caller waits for that limit again. So are
//!    all charges of a caller that leaves.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind};

use super::outcome::Charges;
use super::waiting::{Held, Shared, Step};
use crate::error::StoreError;
use crate::queue::{Origin, Wait};
use crate::rate::Charge;

impl Shared {
    /// Returns the number of callers that wait.
    pub(super) fn waiting(&self) -> usize {
        self.limit.in_line.load(Ordering::Relaxed) + self.state().queue.len()
    }

    /// Acquires `n` units of each limit together, waits for them, and counts the call.
    pub(super) async fn acquire(self: Arc<Self>, n: u64) -> Result<Charges, AcquireError> {
        let decided = |answer: &Result<Charges, AcquireError>| match answer {
            Ok(charges) => Ok(charges.origin),
            Err(error) => Err(error.clone()),
        };
        let call = Arc::clone(&self).decide(n);
        self.limit.common.counters.counted(call, decided).await
    }

    async fn decide(self: Arc<Self>, n: u64) -> Result<Charges, AcquireError> {
        let has_several_lines = {
            let state = self.state();
            self.check(state.closed, &state.own, n)?;
            state.own.has_several_lines
        };
        if n == 0 || self.limit.parts.each.is_empty() {
            let origin = Origin::Alone;
            return Ok(Charges {
                origin,
                ..Charges::local(n, Vec::new())
            });
        }
        let mut turns = TurnsInHand::new(&self, n);
        let (mut lines, mut place) = (Vec::new(), None);
        if !has_several_lines {
            lines = self.limit.lines();
        }
        // Behind others it waits, too.
        let most = self.limit.common.options.max_waiters.max(1);
        if !lines.is_empty() && self.waiting() >= most {
            return Err(AcquireError::new(ErrorKind::QueueFull));
        }
        loop {
            match turns.wait(&lines).await {
                Ok(()) => {}
                // The queue of the set decides by the fallback.
                Err(error) if is_outage(&error) && !self.limit.common.options.fail_waiting => {}
                Err(error) => return Err(error),
            }
            turns.drop_stale();
            let held = turns.held();
            let mut asks = Wait::bringing(&self, n, held);
            (asks.tries, asks.place) = (!asks.brought.is_empty(), place);
            let step = std::future::poll_fn(|context| asks.poll(context)).await?;
            place = asks.place;
            match step {
                Step::Admitted(charges) => return Ok(turns.complete(charges)),
                Step::Behind(behind) => {
                    lines = behind;
                    // A charge that would be too old then is given back now, and the server says how long all
                    // lines are.
                    let longest = lines.iter().map(|(_, wait)| *wait).max();
                    if longest.is_none_or(|wait| turns.are_stale(self.now() + wait)) {
                        turns.drop_all();
                        lines.clear();
                    }
                }
            }
        }
    }
}

fn is_outage(error: &AcquireError) -> bool {
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<StoreError>());
    source.is_some_and(|error| !error.is_mistake())
}

/// The charges of a caller that has waited for turns. Those that it does not use are given back.
struct TurnsInHand<'a> {
    shared: &'a Arc<Shared>,
    cost: u64,
    /// The caller waits no longer than this.
    deadline: Option<Instant>,
    charges: Vec<(usize, Charge, Instant)>,
}

type Line<'a> = Pin<Box<dyn Future<Output = Result<Charge, AcquireError>> + Send + 'a>>;

impl<'a> TurnsInHand<'a> {
    fn new(shared: &'a Arc<Shared>, cost: u64) -> Self {
        Self {
            shared,
            cost,
            deadline: Waiting::remaining_timeout().and_then(|time| shared.now().checked_add(time)),
            charges: Vec::new(),
        }
    }

    fn has(&self, index: usize) -> bool {
        self.charges.iter().any(|(it, ..)| *it == index)
    }

    /// Waits for the turns of these limits, so that they are due together.
    async fn wait(&mut self, lines: &[(usize, Duration)]) -> Result<(), AcquireError> {
        let lines = lines.iter().filter(|(index, _)| !self.has(*index));
        let longest = lines.clone().map(|(_, wait)| *wait).max();
        let Some(longest) = longest else {
            return Ok(());
        };
        let lines = lines.map(|&(index, wait)| (index, Some(self.line(index, longest - wait))));
        let mut lines: Vec<(usize, Option<Line<'a>>)> = lines.collect();
        let _in_line = InLine::new(&self.shared.limit.in_line);
        std::future::poll_fn(|context: &mut Context<'_>| {
            for (index, line) in &mut lines {
                let Some(Poll::Ready(turn)) = line.as_mut().map(|line| line.as_mut().poll(context))
                else {
                    continue;
                };
                *line = None;
                match turn {
                    Ok(charge) => self.charges.push((*index, charge, self.shared.now())),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            let is_over = lines.iter().all(|(_, line)| line.is_none());
            if is_over {
                Poll::Ready(Ok(()))
            } else {
                self.shared.store.time().report();
                Poll::Pending
            }
        })
        .await
    }

    /// Waits in the line of a limit, from that time on.
    fn line(&self, index: usize, later: Duration) -> Line<'a> {
        let (shared, cost, deadline) = (self.shared, self.cost, self.deadline);
        Box::pin(async move {
            if !later.is_zero() {
                shared.store.sleep(later).await?;
            }
            let waits = shared.limit.limiter(index).acquire_many(cost);
            // A wait inside another one does not know its timeout.
            match deadline {
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(shared.now());
                    waits.timeout(left).await
                }
                None => waits.await,
            }
        })
    }

    /// Returns what the caller has been charged.
    fn held(&self) -> Held {
        let charges = self.charges.iter();
        charges.map(|(index, _, since)| (*index, *since)).collect()
    }

    fn give_back(&self, index: usize, charge: Charge) {
        let turns = usize::from(charge.is_turn());
        self.shared.limit.common.counters.unused_turns(turns);
        self.shared.limit.limiter(index).refund_later(charge);
    }

    /// Returns whether there are charges, and one is too old at that time.
    fn are_stale(&self, then: Instant) -> bool {
        let mut held = self.held().into_iter();
        held.any(|one| self.shared.limit.is_stale(self.cost, &one, then))
    }

    fn drop_stale(&mut self) {
        let (now, waits) = (self.shared.now(), &self.shared.limit);
        for (index, charge, since) in std::mem::take(&mut self.charges) {
            if waits.is_stale(self.cost, &(index, since), now) {
                self.give_back(index, charge);
            } else {
                self.charges.push((index, charge, since));
            }
        }
    }

    fn drop_all(&mut self) {
        for (index, charge, _) in std::mem::take(&mut self.charges) {
            self.give_back(index, charge);
        }
    }

    /// Adds these charges to those of the other limits.
    fn complete(mut self, mut charges: Charges) -> Charges {
        if charges.tickets.is_empty() {
            self.drop_all();
        }
        for (index, charge, _) in std::mem::take(&mut self.charges) {
            charges.tickets[index] = charge.ticket().unwrap_or_default();
        }
        charges
    }
}

impl Drop for TurnsInHand<'_> {
    fn drop(&mut self) {
        self.drop_all();
    }
}

/// Counts a caller that waits for turns.
struct InLine<'a>(&'a AtomicUsize);

impl<'a> InLine<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
