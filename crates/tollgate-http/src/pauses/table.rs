//! [`Shared`]: the table of the origins that are paused, or that open step by step.
//!
//! 1. One lock guards the table. A call to another origin looks up one entry under it, and a call takes no lock while
//!    the table is empty.
//! 2. Wakers are called and dropped, and alarms are set and dropped, after the lock is released.
//! 3. An alarm belongs to an origin at which somebody waits. It may be late or early: whoever changes an origin settles
//!    it.

use std::collections::HashMap;
use std::fmt::{self, Display, Write};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use tollgate::Clock;
use tollgate::time::Tick;

use super::alarm::Alarm;
use super::backoff::{Backoff, longer};
use super::budget::Budget;
use super::origin::{Origin, Passage, Pause, Refusal, Settled};
use super::wake::wake_all;
use super::{PausedBy, PausesSnapshot, ResponseClass, WhenFull};

/// The number of counters. Origins whose names have the same hash share one.
const COUNTERS: usize = 512;

/// The part of [`Counter::requests`] that is in flight.
const IN_FLIGHT: u64 = u32::MAX as u64;

/// What the first attempt of a call adds to [`Counter::requests`], beside the one in flight.
const CALL: u64 = IN_FLIGHT + 1;

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) clock: Clock,
    pub(super) max_wait: Duration,
    pub(super) max_pause: Duration,
    pub(super) max_origins: usize,
    pub(super) when_full: WhenFull,
    pub(super) retries: u32,
    pub(super) jitter_percent: f64,
    pub(super) backoff: Backoff,
    pub(super) answer_timeout: Duration,
    pub(super) classify: Option<Arc<Classify>>,
    pub(super) on_full: Option<Arc<OnFull>>,
    pub(super) wall_clock: fn() -> SystemTime,
}

type OnFull = dyn Fn(&str) + Send + Sync;
type Classify = dyn Fn(StatusCode, &HeaderMap, ResponseClass) -> ResponseClass + Send + Sync;

impl Settings {
    /// Returns what a response means.
    pub(super) fn class(&self, status: StatusCode, headers: &HeaderMap) -> ResponseClass {
        let class = ResponseClass::of(status, headers, self.wall_clock);
        match &self.classify {
            Some(classify) => classify(status, headers, class),
            None => class,
        }
    }

    /// Returns a random part of a wait, up to the maximum jitter.
    pub(super) fn jitter(&self) -> f64 {
        let random = RandomState::new().hash_one(0);
        (random >> 11) as f64 / (1_u64 << 53) as f64 * self.jitter_percent / 100.0
    }

    /// Returns the delay before a request that was refused alone is repeated.
    pub(super) fn delay(&self, repeats: u32) -> Duration {
        longer(self.backoff.nth(repeats), self.jitter())
    }
}

pub(super) struct Shared {
    pub(super) settings: Settings,
    table: Mutex<Table>,
    /// The number of origins in the table. It is written under the lock, and publishes no other data.
    known: AtomicUsize,
    /// The number of calls that have begun.
    pub(super) calls: AtomicU64,
    random: RandomState,
    counters: Box<[Counter]>,
}

/// What is counted for the origins whose names have the same hash.
#[derive(Default)]
struct Counter {
    /// The calls that were sent, in the upper half, and the requests in flight.
    requests: AtomicU64,
    /// The tick just after the last pause began.
    known_until: AtomicU64,
}

pub(super) struct Table {
    origins: HashMap<Box<str>, Origin>,
    /// No pause in the table ends earlier.
    earliest_end: Tick,
    /// The refusals of origins for which there was no room.
    unrecorded: u64,
    /// By the index of a counter.
    budgets: HashMap<usize, Budget>,
}

impl Shared {
    pub(super) fn new(settings: Settings) -> Arc<Self> {
        let table = Table {
            origins: HashMap::new(),
            earliest_end: Tick::from_nanos(u64::MAX),
            unrecorded: 0,
            budgets: HashMap::new(),
        };
        Arc::new(Self {
            settings,
            table: Mutex::new(table),
            known: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            random: RandomState::new(),
            counters: (0..COUNTERS).map(|_| Default::default()).collect(),
        })
    }

    pub(super) fn now(&self) -> Tick {
        self.settings.clock.now()
    }

    /// Returns whether the table is empty.
    pub(super) fn knows_none(&self) -> bool {
        self.known.load(Ordering::Relaxed) == 0
    }

    /// Locks the table. No foreign code runs under the lock, so no panic leaves it half changed.
    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pause of an origin, which may be over.
    pub(super) fn pause_of(&self, name: &str) -> Option<Pause> {
        self.lock().origins.get(name).map(|known| *known.pause_of())
    }

    pub(super) fn snapshot(&self) -> PausesSnapshot {
        let now = self.now();
        let table = self.lock();
        let mut snapshot = PausesSnapshot {
            unrecorded: table.unrecorded,
            ..PausesSnapshot::default()
        };
        for known in table.origins.values() {
            snapshot.paused += usize::from(known.is_paused(now));
            snapshot.opening += usize::from(known.opens(now));
            snapshot.waiting += known.waiting();
        }
        snapshot
    }

    /// Returns the index of the counters for an origin.
    fn counter(&self, origin: &impl Display) -> usize {
        /// Hashes what is written.
        struct Hashing<H>(H);

        impl<H: Hasher> Write for Hashing<H> {
            fn write_str(&mut self, part: &str) -> fmt::Result {
                self.0.write(part.as_bytes());
                Ok(())
            }
        }
        let mut hashing = Hashing(self.random.build_hasher());
        // A hasher takes everything.
        let _ = write!(hashing, "{origin}");
        hashing.0.finish() as usize % COUNTERS
    }

    /// Counts a request to an origin as in flight. Returns the index of its counter.
    pub(super) fn begin_flight(&self, origin: &impl Display, is_repeat: bool) -> usize {
        let counter = self.counter(origin);
        let added = if is_repeat { 1 } else { CALL + 1 };
        let requests = &self.counters[counter].requests;
        requests.fetch_add(added, Ordering::Relaxed);
        counter
    }

    pub(super) fn end_flight(&self, counter: usize) {
        let requests = &self.counters[counter].requests;
        requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes a repeat from the budget of an origin, if there is one.
    pub(super) fn take_repeat(&self, name: &str, now: Tick) -> bool {
        let index = self.counter(&name);
        let mut table = self.lock();
        // Under the lock it never falls.
        let requests = self.counters[index].requests.load(Ordering::Relaxed);
        let budget = table.budgets.entry(index).or_default();
        budget.take((requests / CALL) as u32, now)
    }

    /// Changes an origin, if it is known, and settles it.
    pub(super) fn change<R>(
        self: &Arc<Self>,
        name: &str,
        now: Tick,
        change: impl FnOnce(&mut Origin) -> R,
    ) -> Option<R> {
        let mut table = self.lock();
        let changed = change(table.origins.get_mut(name)?);
        self.settle(table, name, now);
        Some(changed)
    }

    /// Pauses an origin, if the refusal is news. Returns whether there was room for it.
    pub(super) fn pause(self: &Arc<Self>, name: &str, refusal: &Refusal, now: Tick) -> bool {
        let counter = &self.counters[self.counter(&name)];
        let mut table = self.lock();
        let mut new = None;
        let origin = match table.origins.get_mut(name) {
            Some(known) => known,
            None => {
                let known_until = Tick::from_nanos(counter.known_until.load(Ordering::Relaxed));
                new.insert(Origin::unknown(known_until))
            }
        };
        let in_flight = (counter.requests.load(Ordering::Relaxed) & IN_FLIGHT) as u32;
        let is_news = origin.pause(refusal, self.settings.backoff, in_flight, now);
        let known = origin.pause_of().known_until;
        if let Some(new) = new.filter(|_| is_news) {
            if !table.make_room(self.settings.max_origins, now) {
                table.unrecorded += 1;
                let is_first = table.unrecorded == 1;
                drop(table);
                if let Some(on_full) = self.settings.on_full.as_ref().filter(|_| is_first) {
                    on_full(name);
                }
                return false;
            }
            table.origins.insert(name.into(), new);
            self.known.store(table.origins.len(), Ordering::Relaxed);
        }
        let known_until = &counter.known_until;
        known_until.fetch_max(known.as_nanos(), Ordering::Relaxed);
        self.settle(table, name, now);
        true
    }

    /// Decides about a call to an origin that is not known: with the option, it is refused if there is no room for a
    /// pause.
    pub(super) fn poll_unknown(&self, now: Tick) -> Passage {
        if self.settings.when_full == WhenFull::ReturnRefusal {
            return Passage::Passes;
        }
        let mut table = self.lock();
        let has_room = table.make_room(self.settings.max_origins, now);
        match table.origins.values().next().filter(|_| !has_room) {
            Some(known) => {
                let mut pause = *known.pause_of();
                (pause.status, pause.by) = (StatusCode::SERVICE_UNAVAILABLE, PausedBy::Full);
                // Without a pause that ends, the places are taken by origins that open.
                let until = Some(table.earliest_end).filter(|it| it.as_nanos() < u64::MAX);
                Passage::Refused(pause, until)
            }
            None => Passage::Passes,
        }
    }

    /// Settles an origin, and forgets it when it is open. Then unlocks, and does what had to wait for that. An origin whose
    /// alarm is due by then is settled again here, because calls of alarms would nest.
    fn settle<'a>(
        self: &'a Arc<Self>,
        mut table: MutexGuard<'a, Table>,
        name: &str,
        mut now: Tick,
    ) {
        while let Some(known) = table.origins.get_mut(name) {
            let settled = known.settle(self.settings.answer_timeout, now);
            let until = known.pause_of().until;
            table.earliest_end = table.earliest_end.min(until);
            if settled.is_open {
                table.origins.remove(name);
                self.known.store(table.origins.len(), Ordering::Relaxed);
            }
            drop(table);
            let Settled {
                woken,
                alarm,
                dropped,
                ..
            } = settled;
            drop(dropped);
            let is_due = alarm.is_some_and(|due| !self.set_alarm(name, due));
            wake_all(woken);
            if !is_due {
                return;
            }
            now = self.now();
            table = self.lock();
        }
    }

    /// Sets an alarm for an origin, unless it has an earlier one by then. Returns `false` if it is due already.
    fn set_alarm(self: &Arc<Self>, name: &str, due: Tick) -> bool {
        let mut set = Alarm::new(self, name, due);
        if set.is_none() {
            return false;
        }
        let mut table = self.lock();
        if let Some(Origin::Busy(busy)) = table.origins.get_mut(name) {
            let is_earlier = busy.alarm.as_ref().is_none_or(|it| due < it.due);
            if is_earlier && set.as_ref().is_some_and(|set| !set.has_fired()) {
                std::mem::swap(&mut busy.alarm, &mut set);
            }
        }
        drop(table);
        drop(set);
        true
    }
}

impl Table {
    /// Makes room for one more origin: if there is none, forgets the origins whose pause is over. Returns whether there
    /// is room.
    fn make_room(&mut self, max_origins: usize, now: Tick) -> bool {
        if self.origins.len() >= max_origins && self.earliest_end <= now {
            self.origins.retain(|_, known| !known.is_over(now));
            let ends = self.origins.values().map(|known| known.pause_of().until);
            let earliest = ends.filter(|end| *end > now).min();
            self.earliest_end = earliest.unwrap_or(Tick::from_nanos(u64::MAX));
        }
        self.origins.len() < max_origins
    }
}
