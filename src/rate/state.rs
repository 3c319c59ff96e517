//! The word of a limiter, and the parameters beside it, for decisions without the lock.
//!
//! The word is a [`Tat`], or the [word](SlidingWindow::word) of a sliding window, in 60 bits with
//! four bits on top. Three are the epoch, which counts the changes of the number's meaning. The
//! fourth is `LOCKED`: decisions need the lock, because there are waiters, the limiter is closed or
//! is being changed, or its rule is not in the word.
//!
//! 1. While `LOCKED` is set, only the holder of the lock writes the word, so a try cannot pass a
//!    waiter, and cannot overtake the holder.
//! 2. A decision without the lock loads the word (acquire), then the parameters, and changes the
//!    word with a compare-exchange (acquire and release). If that succeeds, the parameters belonged
//!    to the word: they are written only while `LOCKED` is set, and `LOCKED` is set by a
//!    read-modify-write of the same word. A decision that read a parameter written later would have
//!    exchanged the word before `LOCKED` was set, and so would have read a value that was not
//!    written yet.
//! 3. A change of the quota, a refund and every other change of the parameters begins the next
//!    epoch. The store that allows decisions without the lock again publishes it (release). So a
//!    load of that word (acquire) finds the parameters that belong to it, and an exchange that was
//!    prepared with older ones fails. Epochs repeat after eight; the number would then also have to
//!    be the same, in new units at a new time, or after charges that exactly equal the refunds. The
//!    word of a sliding window [only grows](crate::algorithm::SlidingWindow::word), with every
//!    charge and with every change of the parameters, so it needs no epoch.
//! 4. A refusal writes nothing, so no exchange confirms its parameters: it reads the word again
//!    instead.
//! 5. Without a limit the word stays locked, so that no decision reads a clock for it. A flag beside
//!    the parameters says whether every call is admitted. No word has to prove it, because such a
//!    call changes nothing. The holder of the lock writes it before the word, so a thread that knows
//!    of a change, such as a close or a new quota, finds the flag of that change or a later one.

use crate::algorithm::{Ledger, MAX_TAT, Params, SlidingWindow, Tat, tick_or_never};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::Tick;

const LOCKED: u64 = 1 << 63;
const EPOCH_SHIFT: u32 = 60;
const EPOCHS: u64 = 0b111 << EPOCH_SHIFT;

/// The word.
#[derive(Default)]
pub(super) struct AtomicState(AtomicU64);

/// The word at some moment.
#[derive(Clone, Copy, Default)]
pub(super) struct StateSnapshot(u64);

impl StateSnapshot {
    #[inline(always)]
    pub(super) fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    #[inline(always)]
    pub(super) fn tat(self) -> Tat {
        Tat::from_units(self.0 & MAX_TAT)
    }

    /// Returns the word with another time, in the same epoch.
    #[inline(always)]
    pub(super) fn with(self, tat: Tat) -> Self {
        Self(self.0 & !MAX_TAT | tat.end())
    }

    /// Returns the word in the next epoch.
    pub(super) fn next_epoch(self) -> Self {
        let epoch = self.0.wrapping_add(1 << EPOCH_SHIFT) & EPOCHS;
        Self(self.0 & !EPOCHS | epoch)
    }
}

impl AtomicState {
    #[inline(always)]
    pub(super) fn load(&self) -> StateSnapshot {
        // This pairs with the release of `store`: the parameters are those of this epoch, or later
        // ones.
        StateSnapshot(self.0.load(Ordering::Acquire))
    }

    /// Changes the time, if nothing has changed since the snapshot.
    #[inline(always)]
    pub(super) fn exchange(&self, seen: StateSnapshot, tat: Tat) -> bool {
        // Release, because the parameters were read before. It pairs with the acquire of `lock`,
        // which comes before they are written.
        self.0
            .compare_exchange(
                seen.0,
                seen.with(tat).0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Returns whether nothing has changed since the snapshot, so that the parameters read since
    /// then belong to it.
    #[inline(always)]
    pub(super) fn is_still(&self, seen: StateSnapshot) -> bool {
        // If a thread has read a parameter written since `LOCKED` was set, it finds `LOCKED` set
        // here.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == seen.0
    }

    /// Stops all decisions without the lock. Requires the lock.
    pub(super) fn lock(&self) -> StateSnapshot {
        StateSnapshot(self.0.fetch_or(LOCKED, Ordering::AcqRel))
    }

    /// Writes the word, and allows decisions without the lock unless `locked`. Requires the lock,
    /// after [`lock`](Self::lock).
    pub(super) fn store(&self, state: StateSnapshot, locked: bool) {
        let word = if locked {
            state.0 | LOCKED
        } else {
            state.0 & !LOCKED
        };
        self.0.store(word, Ordering::Release);
    }
}

/// The parameters of decisions without the lock. They are written with the lock, while the word is
/// locked.
#[derive(Default)]
pub(super) struct SharedParams {
    emission_interval: AtomicU64,
    burst_tolerance: AtomicU64,
    surplus: [AtomicU64; 2],
    /// The base ticket of decisions without the lock.
    first_ticket: AtomicU64,
    /// The generation of charges.
    generation: AtomicU64,
    lack: [AtomicU64; 2],
    step: AtomicU64,
    stride: AtomicU64,
    start: AtomicU64,
    /// The chunk size for adapters; no decision reads it.
    chunk: AtomicU64,
    /// Not 0 if every call is admitted: there is no limit, and nothing else needs the lock.
    admits_all: AtomicU64,
}

impl SharedParams {
    /// Returns the parameters, without those for the conversion from units back to ticks, which
    /// [`tick_at`](Self::tick_at) reads. The [word](AtomicState) has to prove that they belong
    /// together.
    #[inline(always)]
    pub(super) fn load(&self) -> Params {
        let mut params = Params {
            emission_interval: read(&self.emission_interval),
            burst_tolerance: read(&self.burst_tolerance),
            surplus: [read(&self.surplus[0]), 0],
            step: 0,
            start: 0,
            lack: [0, 0],
            stride: 1,
        };
        if !params.is_even() {
            params.surplus[1] = read(&self.surplus[1]);
            params.step = read(&self.step);
            params.start = read(&self.start) as i64;
        }
        params
    }

    /// Returns the sliding window of a word. The proof is that of [`load`](Self::load).
    #[inline(always)]
    pub(super) fn window(&self, word: Tat) -> SlidingWindow {
        let params = Params {
            burst_tolerance: read(&self.burst_tolerance),
            step: read(&self.step),
            stride: read(&self.stride),
            start: read(&self.start) as i64,
            ..Params::stepped(1, 1, 1)
        };
        SlidingWindow::of_word(&params, self.first_ticket(), word)
    }

    /// Returns the first tick at which `units` have passed; `units` must not exceed the number of
    /// ticks. The proof is that of [`load`](Self::load).
    #[inline(always)]
    pub(super) fn tick_at(&self, params: &Params, units: u64) -> Tick {
        if params.is_even() {
            return tick_or_never(units);
        }
        let params = Params {
            lack: [read(&self.lack[0]), read(&self.lack[1])],
            stride: read(&self.stride),
            ..*params
        };
        params.tick_at_or_before_last(units)
    }

    #[inline(always)]
    pub(super) fn first_ticket(&self) -> u64 {
        read(&self.first_ticket)
    }

    #[inline(always)]
    pub(super) fn generation(&self) -> u64 {
        read(&self.generation)
    }

    /// Returns whether there is no limit. A charge of the present epoch proves it: the thread that
    /// made it has read these parameters, or later ones.
    #[inline]
    pub(super) fn is_unlimited(&self) -> bool {
        read(&self.emission_interval) == 0
    }

    /// Returns whether every call is admitted.
    #[inline(always)]
    pub(super) fn admits_all(&self) -> bool {
        read(&self.admits_all) != 0
    }

    /// Writes whether every call is admitted. Requires the lock.
    pub(super) fn set_admits_all(&self, admits_all: bool) {
        if self.admits_all() != admits_all {
            self.admits_all.store(admits_all.into(), Ordering::Relaxed);
        }
    }

    /// Returns the chunk size for adapters. It is an independent number, so nothing has to prove
    /// it.
    pub(super) fn chunk(&self) -> u64 {
        read(&self.chunk)
    }

    /// Writes the parameters. Only valid while the word is locked, or before another thread has it.
    pub(super) fn store(&self, ledger: &Ledger) {
        // This comes after `LOCKED`, for threads that read the word again.
        fence(Ordering::Release);
        // Most parameters are the same as before.
        let write = |param: &AtomicU64, value| {
            if read(param) != value {
                param.store(value, Ordering::Relaxed);
            }
        };
        let params = ledger.params();
        write(&self.emission_interval, params.emission_interval);
        write(&self.burst_tolerance, params.burst_tolerance);
        write(&self.surplus[0], params.surplus[0]);
        write(&self.surplus[1], params.surplus[1]);
        write(&self.first_ticket, ledger.first_ticket());
        write(&self.generation, ledger.generation());
        write(&self.lack[0], params.lack[0]);
        write(&self.lack[1], params.lack[1]);
        write(&self.step, params.step);
        write(&self.stride, params.stride);
        write(&self.start, params.start as u64);
        write(&self.chunk, ledger.quota().chunk(params.burst()));
    }
}

/// Reads a parameter. The [word](AtomicState) has to prove which version it is.
#[inline(always)]
fn read(param: &AtomicU64) -> u64 {
    param.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::RateLimiter;
    use crate::algorithm::{Algorithm, Tat};
    use crate::quota::Quota;
    use crate::time::Clock;

    /// After eight changes the epoch is the same again, and the charges are equal.
    #[test]
    fn exchange_by_a_sliding_window_after_eight_changes_of_the_quota_fails() {
        let quota = |count| Quota::new(count, Duration::from_secs(3600));
        let limiter = RateLimiter::new(quota(10))
            .algorithm(Algorithm::SlidingWindow)
            .clock(Clock::manual());
        limiter.try_acquire_many(3).unwrap();
        let state = &limiter.states.get().unwrap().outside.state;
        let seen = state.load();
        for count in 3..11 {
            limiter.set_quota(quota(14 - count));
            assert!(!state.is_still(seen));
        }
        assert!(!state.exchange(seen, Tat::from_units(seen.tat().end() + 1)));
        assert_eq!(limiter.snapshot().available, 1);
    }
}
