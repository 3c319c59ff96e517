//! [`LimitStatistics`]: what the calls of a limit have come to, as a snapshot; and [`LimitCounters`], which it is
//! read from.
//!
//! The counters belong to a limiter and its clones; those of all keys of a map are the same, so a key has a
//! reference to them and nothing else. They are independent of each other, so a snapshot that is taken during a
//! call may have one of them and not yet another.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tollgate::{AcquireError, ErrorKind};

use crate::sync::{AtomicU64, Ordering};

/// What a [`RateLimiter`](crate::RateLimiter), a [`LimitSet`](crate::LimitSet) or a
/// [`Semaphore`](crate::Semaphore) of this process has done since it was created: the number of calls of each
/// outcome. `statistics` of each of them returns it.
///
/// A call counts once, when it ends: as admitted, denied, refused, failed or abandoned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitStatistics {
    /// Calls that were admitted.
    pub admitted: u64,
    /// Calls that were denied because there was not enough: `RateLimited`, `NoPermits`.
    pub denied: u64,
    /// Calls that were refused for another reason, such as `QueueFull`, `ExceedsCapacity`, or `TimedOut` if the wait was
    /// known to be longer.
    pub refused: u64,
    /// Calls that failed, because the store failed and no fallback decided.
    pub failed: u64,
    /// Calls whose futures were dropped while they waited, also by a timeout that has passed.
    pub abandoned: u64,
    /// Of the admitted and the denied calls, those that shared a request of the server with others.
    pub coalesced: u64,
    /// Of the admitted and the denied calls, those that were decided without the server: with prefetched tokens,
    /// or from an earlier denial.
    pub cached: u64,
    /// Of the admitted and the denied calls, those that the [fallback](crate::Fallback) decided.
    pub fallbacks: u64,
    /// The calls that wait now, or are being decided; without `reserve` and `try_acquire_up_to`.
    pub waiting: u64,
    /// The [turns](crate::RateLimiter#order) that were reserved. 0 for a semaphore.
    pub turns: u64,
    /// Of these, the turns that were given back, or came too late to be used.
    pub unused_turns: u64,
}

/// The origin of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// A request for this call alone.
    Alone,
    Coalesced,
    Cached,
    Fallback,
}

const ORIGINS: usize = 4;

/// A call that is being counted.
struct Waits<'a> {
    counters: &'a LimitCounters,
    is_waiting: bool,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.counters.dropped(&mut self.is_waiting);
    }
}

#[derive(Debug, Default)]
pub(crate) struct LimitCounters {
    /// By their origin.
    admitted: [AtomicU64; ORIGINS],
    denied: [AtomicU64; ORIGINS],
    refused: AtomicU64,
    failed: AtomicU64,
    abandoned: AtomicU64,
    waiting: AtomicU64,
    turns: AtomicU64,
    unused_turns: AtomicU64,
}

impl LimitCounters {
    /// Counts the end of a call. `origin` returns that of a permit or a denial.
    pub(crate) fn ended<T>(
        &self,
        answer: &Result<T, AcquireError>,
        origin: impl Fn(Result<&T, &AcquireError>) -> Origin,
    ) {
        let counter = match answer {
            Ok(permit) => &self.admitted[origin(Ok(permit)) as usize],
            Err(error) => match error.kind() {
                ErrorKind::RateLimited | ErrorKind::NoPermits => {
                    &self.denied[origin(Err(error)) as usize]
                }
                ErrorKind::Store => &self.failed,
                _ => &self.refused,
            },
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a poll of a call, which begins to wait or ends.
    pub(crate) fn polled<T>(
        &self,
        is_waiting: &mut bool,
        poll: &Poll<Result<T, AcquireError>>,
        origin: impl Fn(Result<&T, &AcquireError>) -> Origin,
    ) {
        match poll {
            Poll::Pending if !*is_waiting => {
                *is_waiting = true;
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            Poll::Pending => {}
            Poll::Ready(answer) => {
                self.ended(answer, origin);
                self.leave(is_waiting);
            }
        }
    }

    /// Counts a call: when it begins to wait, when it ends, and if it is dropped.
    pub(crate) async fn counted<T>(
        &self,
        call: impl Future<Output = T>,
        decided: impl Fn(&T) -> Result<Origin, AcquireError>,
    ) -> T {
        let mut call = pin!(call);
        let mut waits = Waits {
            counters: self,
            is_waiting: false,
        };
        poll_fn(|context| {
            let poll = call.as_mut().poll(context);
            let answer = match &poll {
                Poll::Ready(answer) => Poll::Ready(decided(answer)),
                Poll::Pending => Poll::Pending,
            };
            self.polled(&mut waits.is_waiting, &answer, |it| {
                it.copied().unwrap_or(Origin::Alone)
            });
            poll
        })
        .await
    }

    /// Counts the drop of a call.
    pub(crate) fn dropped(&self, is_waiting: &mut bool) {
        if *is_waiting {
            self.abandoned.fetch_add(1, Ordering::Relaxed);
            self.leave(is_waiting);
        }
    }

    fn leave(&self, is_waiting: &mut bool) {
        if std::mem::take(is_waiting) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts a turn that is reserved.
    pub(crate) fn reserved_turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts turns that are not used.
    pub(crate) fn unused_turns(&self, count: usize) {
        self.unused_turns.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> LimitStatistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sum = |counters: &[AtomicU64]| counters.iter().map(get).sum::<u64>();
        let by = |origin| {
            [&self.admitted, &self.denied]
                .map(|of| get(&of[origin as usize]))
                .iter()
                .sum()
        };
        LimitStatistics {
            admitted: sum(&self.admitted),
            denied: sum(&self.denied),
            refused: get(&self.refused),
            failed: get(&self.failed),
            abandoned: get(&self.abandoned),
            coalesced: by(Origin::Coalesced),
            cached: by(Origin::Cached),
            fallbacks: by(Origin::Fallback),
            waiting: get(&self.waiting),
            turns: get(&self.turns),
            unused_turns: get(&self.unused_turns),
        }
    }
}
