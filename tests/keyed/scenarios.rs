//! Sequences of calls to a map, one a row: the caps, the queues, quotas and permits of keys. The model in
//! `model` shows that a key behaves like a limiter.
//!
//! The set-up is the quota or the number of permits of each key; then options, each after a semicolon. In maps
//! with `own`, the permits of a key, or its rate per second and its burst, are its number times the factor;
//! key 0 has no limit. A call names its key, then the cost, 1 if there is none. Waiters and grants are named
//! by their positions from 0.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::keyed::{Key, Kind, WhenFull};
use tollgate::rate::{Charge, QuotaChange};
use tollgate::time::ManualClock;
use tollgate::wait::Waiting;
use tollgate::{Clock, ErrorKind, Keyed, Quota, RateLimiter, Semaphore, Snapshot, Throttle};

use crate::support::scenarios::{RetryAfter, Row, Time, Words, check};
use crate::support::{Waiter, kind, paused_runtime};

const RATES: &str = "
# As many keys as there may be.
a new key is refused until the first it looked at makes room | 1/s burst 4; keys 2 | try 1 4, try 2 2, crowded 3 2s,
    advance 2s-1ns, crowded 3 1ns, advance 1ns, try 3, left 1 2, len 2
what costs nothing or is never admitted needs no room | 1/s burst 4; keys 1 | try 1 4, try 2 0, enter 2 0,
    no 2 too-much 5, len 1, left 1 0
what costs nothing or is never admitted evicts nobody | 1/s burst 4; keys 1; evict | try 1 4, try 2 0, enter 2 0,
    no 2 too-much 5, len 1, left 1 0
calls without room leave the whole burst | 1/s burst 4; keys 1 | try 1, crowded 2 1s, advance 1s, try 2 4
the key that owes least is forgotten | 1/s burst 4; keys 2; evict | try 1 4, try 2 3, try 3 4, left 1 0, left 2 4, len 2
waiters survive when everything else is refused | 1/s burst 4; keys 4 | try 0 4, wait 0, wait 0, flood 1 10000 4,
    waiting 0 2, no 0 limited, advance 1s, granted 0 1s, pending 0, advance 1s, granted 0 2s
waiters survive when everything else is evicted | 1/s burst 4; keys 4; evict | try 0 4, wait 0, wait 0,
    flood 1 10000 4, waiting 0 2, no 0 limited, advance 1s, granted 0 1s, pending 0, advance 1s, granted 0 2s
beside keys with waiters a new one is refused, and they make room later | 1/s burst 4; keys 2 | try 1 4, wait 1 4,
    try 2 4, wait 2 4, crowded 3, advance 4s, granted 0, granted 0, advance 4s, try 3, try 4, len 2
and none is evicted | 1/s burst 4; keys 2; evict | try 1 4, wait 1 4, try 2 4, wait 2 4, crowded 3, advance 4s,
    granted 0, granted 0, advance 4s, try 3, try 4, len 2
shrink drops the recovered, and retain whom it does not keep, but none with waiters | 1/s burst 4; keys 10000 |
    flood 0 2500 1, flood 2500 5000 2, advance 1s, wait 2501 4, shrink, len 2500, retain 3, len 834, left 2502 3,
    left 2503 4, left 1 4, advance 1s, granted 0, retain 1000000, advance 4s, shrink, len 0, try 1 4

# The queues of keys.
waiters of each key go in their order and wait for no other key | 1/s | try 1, try 2, 3 x wait 1 + wait 2, waiting 1 3,
    waiting 2 3, advance 1s, granted 0 1s, granted 0 1s, pending 0, pending 1, advance 1s, granted 0 2s, granted 0 2s,
    pending 0, pending 1, advance 1s, granted 0 3s, granted 0 3s
a key is forgotten only when all is paid off | 1/s | try 1, wait 1, advance 1s, granted 0 1s, shrink, len 1, peek 1 1s,
    advance 1s, shrink, len 0
close ends all waits of all keys | 1/s | try 1, wait 1, try 2, wait 2, try 300, wait 300, close, 3 x refused 0 closed,
    no 1 closed, no 77 closed 0, peek 77 never
a refund that takes a limiter after the close leaves it closed | 1/s burst 4 | try 1, try 1, close, release 0, left 1 3,
    peek 1 never
# It ends earlier by what was refunded before it: they are told apart until it ended, had nothing been refunded.
a charge that is paid off is not a later one | 1/s burst 4 | try 1 2, try 1 2, release 0, advance 2s, try 1 2,
    release 0,
    left 1 2

# What a key has refunded does not keep its place, and charges from before it was dropped refund nothing.
a key that has refunded all it spent makes room at once | 1/s burst 4; keys 1 |
    1000 x try 1 + try 1 + release 0 + release 0, left 1 4, keys, try 2, len 1
a key that has refunded a part makes room when the rest is paid off | 1/s burst 4; keys 1 | try 1 2, try 1 2, release 0,
    crowded 2 2s, advance 2s-1ns, crowded 2 1ns, advance 1ns, try 2, len 1
a key that has refunded is evicted like others | 1/s burst 4; keys 1; evict | try 1 2, try 1 2, release 0, try 2, left 1 4,
    len 1
a late refund to a key that was dropped and came again gives nothing | 1/s burst 4; keys 1 | try 1 2, try 1 2, release 0,
    advance 2s, shrink, len 0, try 1 2, release 0, left 1 2
a late refund to a key that was evicted and came again gives nothing | 1/s burst 4; keys 1; evict | try 1 4, try 2,
    try 1 4, release 0, left 1 0, release 1, left 1 4
a late refund to a key that was not retained gives nothing | 1/s burst 4; keys 1 | try 1 4, retain 2, len 0, try 1 4,
    release 0, left 1 0
a late refund to a key whose limiter was reclaimed gives nothing | 1/s burst 4; keys 60 | try 1 2, try 1 2, release 0,
    advance 2s, try 2, len 2, try 1 2, release 0, left 1 2
a refund to a key whose limiter was looked at while it owed is given | 1/s burst 4; keys 60 | try 1 2, try 1 2, release 0,
    try 2, release 0, left 1 4
refunds of other keys are given when keys are dropped and come again | 1/s burst 4; keys 2; evict | try 1 4, try 2 3,
    try 3 1, try 2 1, release 0, left 1 4, len 2
retain drops a key that has refunded and owes | 1/s burst 4 | try 1 2, try 1 2, release 0, retain 2, len 0, left 1 4

# Quotas.
requota asks for the quota of a key again, also for who waits | 1/h; own | try 4 2, factor 2, left 4 2, requota 4,
    left 4 4, try 4 4, wait 4 4, factor 4, requota 4, advance 250ms, granted 0
requota in proportion gives nothing of a larger burst to a key that has spent its own | 1/h; own | try 5 5, factor 10,
    requota 5, left 5 0
requota_with keeps the spent number of one key | 1/h; own | try 5 5, try 4 4, factor 10, requota-with 5 keep, left 5 45,
    requota 4, left 4 0
requota_with keeps the spent number of a key with a limiter | 1/h; own | reserve 5, try 5 5, factor 10,
    requota-with 5 keep, left 5 45
requota_with in proportion overrides the option of the map | 1/h; own; keep | try 5 5, factor 10,
    requota-with 5 proportional, left 5 0
requota keeps the spent number by an option | 1/h; own; keep | try 5 5, reserve 4, try 4 4, factor 10, requota-all,
    left 5 45, left 4 36
set_quota for all keeps the spent number by an option | 1/s burst 5; keep | try 1 5, reserve 2, try 2 5,
    set 1/s burst 50, left 1 45, left 2 45, set 1/s burst 5, left 1 0, left 2 0
set_quota for all keeps what was spent in proportion, and refunds nothing from before | 4/s burst 4 | try 1 2, try 2 4,
    wait 2 4, set 8/s burst 8, left 1 4, left 3 8, release 0, left 1 4, advance 500ms, granted 0
keys are those with a debt or a waiter | 1/s burst 2 | try 1, try 2 2, wait 2 2, keys 1 2, advance 1s, keys 2,
    advance 1s, granted 0, advance 2s, keys, len 2
set_quota for all lifts the limit and sets it | 10/s burst 2 | try 0 2, try 1 2, wait 1, set unlimited, granted 0 0s,
    try 0 18446744073709551615, try 1 18446744073709551615, try 2 18446744073709551615, left 0 18446744073709551615,
    left 1 18446744073709551615, set 10/s burst 2, left 0 2, left 1 2, left 2 2
a key keeps its own quota when its limiter is reclaimed | 1/h; own; keys 60 | reserve 5, advance 10s, try 4, left 5 5
a key without a limit admits any cost | 10/s; own | 3 x try 0 1152921504606846976, try 1, no 1 limited

# Charges of another key or map; also where keys have limiters of their own, because one waits.
a refund of a charge of another key or map gives nothing back | 8/h burst 8 | try 1 8, try 2, try 2, misplace 1 1,
    misplace 1 1, stranger 1, left 1 0, release 0, left 1 8
and with limiters of their own | 8/h burst 8 | reserve 1, try 1 8, try 2, try 2, misplace 1 1, misplace 1 1, stranger 1,
    left 1 0, release 0, left 1 8
and with quotas of their own | 8/h; own | try 8 8, try 9, try 9, misplace 1 8, misplace 1 8, stranger 8, left 8 0,
    release 0, left 8 8
and with both | 8/h; own | reserve 8, try 8 8, try 9, try 9, misplace 1 8, misplace 1 8, stranger 8, left 8 0,
    release 0,
    left 8 8
";

const PERMITS: &str = "
each key has its permits and its queue | 2 | try 1 2, wait 1 2, no 1 no-permits, waiting 1 1, waiting 2 0, left 1 0,
    left 2 2, try 2, release 0, granted 0
a key in use is not evicted and a new one is refused | 1; keys 2 | try 1, try 2, wait 2, crowded 3, release 1,
    crowded 3,
    release 0, try 3, no 3 no-permits, granted 0, release 1, release 0, len 2
idle keys make room for new ones | 1; keys 1000 | flood 0 10000 1, fewer 200, shrink, len 0
requota asks for the permits of a key again | 7; own | try 3 3, no 3 no-permits, factor 2, no 3 no-permits, requota 3,
    try 3 3, no 3 no-permits, factor 1, requota-all, release 1, no 3 no-permits, release 0, try 3 3, release 0, try 5 5,
    no 2 too-much 3
retain drops only keys that are not in use | 1; keys 100 | take 0 90, 40 x release 50, retain 10, len 54, release-all,
    retain 10, len 9
set_permits changes keys that are held and waited for, and new ones | 1 | permits 2, try 1 2, wait 1 2, try 2 2,
    permits 4, granted 0, no 1 no-permits, try 2 2, release 3, try 3 4, release 3, permits 1, release 0, release 0,
    no 1 no-permits, release 0, left 1 1, left 2 1, left 3 1, left 4 1
set_permits below the request of a waiter refuses it at once | 3 | try 1 3, wait 1 1, wait 1 3, try 2 3,
    wait 2 3, permits 2, refused 1 too-much, pending 0, refused 1 too-much, release 0, granted 0
reject_impossible refuses what waits for more than the limit of its key | 0 | wait 1 5, wait 1 1, wait 2 5, wait 2 1,
    permits 2, pending 0, pending 1, pending 2, pending 3, reject, refused 0 too-much, granted 0, refused 0 too-much,
    granted 0
set_permits of all keys keeps those with their own | 1; own | try 3, permits 7, left 3 2, left 2 2
close ends all waits of all keys | 1 | try 1, wait 1, try 2, wait 2, close, refused 0 closed, refused 0 closed,
    no 1 closed, no 3 closed
";

/// On tokio's time a key has a state for each runtime, and makes room when it owes in none. `in` names one of two
/// runtimes (the first is the default), and `out` is outside of both.
#[cfg(feature = "tokio")]
const RUNTIMES: &str = "
keys met in two runtimes by turns limit both | 1/h; tokio | left 1 1, try 1, no 1 limited, peek 1 1h, in 1, left 1 1,
    try 1, no 1 limited, peek 1 1h, 2 x in 0 + left 1 0 + no 1 limited + peek 1 1h + in 1 + left 1 0 + no 1 limited +
    peek 1 1h, out, try 1, len 1
and so do keys with quotas of their own | 1/d; own; tokio | left 1 1, try 1, no 1 limited, peek 1 1s, in 1, left 1 1,
    try 1, no 1 limited, peek 1 1s, 2 x in 0 + left 1 0 + no 1 limited + peek 1 1s + in 1 + left 1 0 + no 1 limited +
    peek 1 1s, out, try 1, len 1
peek of an absent key after close never admits | 1/h; tokio | peek 1 0s, peek 1 0s, close, peek 1 never, no 1 closed,
    len 0
max_keys counts a key until no runtime in use owes | 1/h; keys 1; tokio | in 1, try 1, in 0, left 1 1, crowded 2 1h,
    advance 2h, crowded 2 1h, in 1, advance 1h-1ms, in 0, crowded 2 1ms, in 1, advance 1ms, in 0, try 2, keys 2, len 1
a key that owes in another runtime is evicted | 1/h; keys 1; evict; tokio | in 1, try 1, in 0, left 1 1, try 2, in 1,
    left 1 1
the key that owes least is evicted, but none with waiters | 1/h burst 4; keys 3; evict; tokio | in 1, try 0 4, wait 0,
    in 0, try 1 4, try 2 3, try 3 4, left 1 0, left 2 4, in 1, waiting 0 1, advance 1h, granted 0
retain and shrink drop keys as on other clocks | 1/h; tokio | try 0, try 1, try 2, try 3, try 4, release 4, shrink,
    len 4,
    retain 2, len 2, wait 2, retain 5, len 2
a key is not replaced before it has recovered for a minute | 1/s; keys 10; tokio | try 1, advance 60999ms, try 2, len 2
but then, though there is room | 1/s; keys 10; tokio | try 1, advance 61s, try 2, len 1
set_quota and close reach every runtime | 1/h burst 4; tokio | try 1 2, try 2 4, wait 2, in 1, try 1 2, try 2 4, wait 2,
    set 1/h burst 8, left 1 4, left 3 8, in 0, left 1 4, left 3 8, close, refused 0 closed, refused 0 closed,
    no 1 closed, no 4 closed, in 1, no 1 closed, no 4 closed
requota and close reach every runtime | 1/d; own; tokio | try 4 2, try 5 5, wait 5, in 1, try 4 2, try 5 5, wait 5,
    factor 2, requota 4, left 4 4, left 6 12, in 0, left 4 4, left 6 12, close, refused 0 closed, refused 0 closed,
    no 4 closed, no 7 closed, in 1, no 4 closed, no 7 closed
";

/// The limit of each key.
trait Each: Kind + Sized + 'static {
    fn map(pattern: &str, clock: Clock) -> Keyed<u32, Self>;

    /// Creates a map in which each key has its own number, times the factor.
    fn own(map: Keyed<u32, Self>, factor: Arc<AtomicU64>) -> Keyed<u32, Self>;

    /// Only limiters of keys can be evicted.
    fn evict(_: Keyed<u32, Self>) -> Keyed<u32, Self> {
        panic!("it has nothing to evict")
    }

    /// Only limiters of keys have spent something.
    fn keep_spent(_: Keyed<u32, Self>) -> Keyed<u32, Self> {
        panic!("it keeps nothing spent")
    }

    fn snapshot(key: &Key<'static, Self, u32>) -> Snapshot;

    fn give_back(key: &Key<'static, Self, u32>, given: Self::Permit);

    /// Returns the time of the grant, if it is known.
    fn at(given: &Self::Permit) -> Option<Duration>;

    /// Makes a call that only these maps have.
    fn call(told: &mut Told<Self>, call: &str, words: &mut Words<'_>);
}

impl Each for RateLimiter {
    fn map(pattern: &str, clock: Clock) -> Keyed<u32, Self> {
        Keyed::new(Self::new(pattern.parse().expect("a quota")).clock(clock))
    }

    fn own(map: Keyed<u32, Self>, factor: Arc<AtomicU64>) -> Keyed<u32, Self> {
        map.quotas(move |key| match u64::from(*key) {
            0 => Quota::UNLIMITED,
            key => {
                let count = key * factor.load(Ordering::Relaxed);
                Quota::per_second(count).burst(count)
            }
        })
    }

    fn evict(map: Keyed<u32, Self>) -> Keyed<u32, Self> {
        map.when_full(WhenFull::Evict)
    }

    fn keep_spent(map: Keyed<u32, Self>) -> Keyed<u32, Self> {
        map.quota_change(QuotaChange::KeepSpent)
    }

    fn snapshot(key: &Key<'static, Self, u32>) -> Snapshot {
        key.snapshot()
    }

    fn give_back(key: &Key<'static, Self, u32>, given: Charge) {
        key.refund(given);
    }

    fn at(given: &Charge) -> Option<Duration> {
        Some(Duration::from_nanos(given.at().as_nanos()))
    }

    fn call(told: &mut Told<Self>, call: &str, words: &mut Words<'_>) {
        match call {
            "set" => {
                let quota = words.rest().parse().expect("a quota");
                told.users.set_quota(quota);
                assert_eq!(told.users.quota(), quota);
            }
            "requota-with" => {
                let (key, how) = (words.parse(), words.word());
                let how = match how {
                    "keep" => QuotaChange::KeepSpent,
                    "proportional" => QuotaChange::Proportional,
                    how => panic!("no change: {how:?}"),
                };
                told.users.requota_with::<u32>(&key, how);
            }
            "peek" => assert_eq!(
                told.key(words).peek().retry_after,
                words.parse::<RetryAfter>().of_decision()
            ),
            // A waiter takes a limiter of its key.
            "reserve" => drop(told.key(words).reserve()),
            // A charge of another key is given to this one.
            "misplace" => {
                let (_, theirs) = told.given.remove(words.parse());
                let user = told.key(words);
                assert_eq!(user.decision(&theirs), user.peek_many(0));
                user.refund(theirs);
            }
            // Charges of another map and of a limiter.
            "stranger" => {
                let user = told.key(words);
                let limiter = || Self::new(user.quota()).clock(&told.clock);
                let map = Keyed::<u32, _>::new(limiter());
                let theirs = map.key(user.key()).try_acquire().unwrap();
                assert_eq!(user.decision(&theirs), user.peek_many(0));
                user.refund(theirs);
                user.refund(limiter().try_acquire().unwrap());
            }
            _ => panic!("no call: {call:?}"),
        }
    }
}

impl Each for Semaphore {
    fn map(pattern: &str, _clock: Clock) -> Keyed<u32, Self> {
        Keyed::<u32, _>::semaphores(pattern.parse().expect("a number of permits"))
    }

    fn own(map: Keyed<u32, Self>, factor: Arc<AtomicU64>) -> Keyed<u32, Self> {
        map.permits(move |key| *key as usize * factor.load(Ordering::Relaxed) as usize)
    }

    fn snapshot(key: &Key<'static, Self, u32>) -> Snapshot {
        key.snapshot()
    }

    fn give_back(_: &Key<'static, Self, u32>, given: Self::Permit) {
        drop(given);
    }

    fn at(_: &Self::Permit) -> Option<Duration> {
        None
    }

    fn call(told: &mut Told<Self>, call: &str, words: &mut Words<'_>) {
        match call {
            "permits" => told.users.set_permits(words.parse()),
            "reject" => told.users.reject_impossible(),
            _ => panic!("no call: {call:?}"),
        }
    }
}

type Wait<T> = Waiting<<Key<'static, T, u32> as Throttle>::Enter>;

struct Told<T: Each> {
    clock: ManualClock,
    users: Arc<Keyed<u32, T>>,
    factor: Arc<AtomicU64>,
    waiters: Vec<(u32, Waiter<Wait<T>>)>,
    /// The grants, each with its key.
    given: Vec<(u32, T::Permit)>,
    /// Two runtimes, if it is on tokio's time, and the one that calls use.
    runtimes: Arc<[Runtime]>,
    inside: usize,
}

impl<T: Each> Told<T>
where
    T::Permit: Debug,
{
    fn new(setup: &str) -> Self {
        let (clock, factor) = (Clock::manual(), Arc::new(AtomicU64::new(1)));
        let mut parts = setup.split(';').map(str::trim);
        let on_tokio = setup.ends_with("tokio");
        let time = if on_tokio {
            tokio_clock()
        } else {
            (&clock).into()
        };
        let mut users = T::map(parts.next().expect("what each key has"), time);
        for option in parts {
            let mut words = Words::new(option);
            users = match words.word() {
                "keys" => users.max_keys(words.parse()),
                "evict" => T::evict(users),
                "keep" => T::keep_spent(users),
                "own" => T::own(users, Arc::clone(&factor)),
                "tokio" => users,
                option => panic!("no option: {option:?}"),
            };
            words.end();
        }
        Self {
            clock,
            users: Arc::new(users),
            factor,
            waiters: Vec::new(),
            given: Vec::new(),
            runtimes: (0..2 * usize::from(on_tokio))
                .map(|_| paused_runtime())
                .collect(),
            inside: 0,
        }
    }

    fn cost(words: &mut Words<'_>) -> u64 {
        words.maybe().unwrap_or(1)
    }

    /// Makes a call in the notation of the rows.
    fn call(&mut self, call: &str, words: &mut Words<'_>) {
        let runtimes = Arc::clone(&self.runtimes);
        let runtime = runtimes.get(self.inside);
        let _inside = runtime.map(Runtime::enter);
        match call {
            "in" => self.inside = words.parse(),
            "out" => self.inside = usize::MAX,
            "advance" => match runtime {
                Some(runtime) => runtime.block_on(tokio::time::sleep(words.time())),
                None => self.clock.advance(words.time()),
            },
            "close" => {
                assert!(!self.users.is_closed());
                self.users.close();
                assert!(self.users.is_closed());
            }
            "shrink" => self.users.shrink(),
            "retain" => {
                let multiples: u32 = words.parse();
                self.users.retain(|key| key % multiples == 0);
            }
            "factor" => self.factor.store(words.parse(), Ordering::Relaxed),
            "requota" => self.users.requota(&words.parse()),
            "requota-all" => self.users.requota_all(),
            "try" => {
                let (key, cost) = (self.key(words), Self::cost(words));
                let given = key.try_acquire_many(cost).expect("it fits");
                self.given.push((*key.key(), given));
            }
            "enter" => {
                let (key, cost) = (self.key(words), Self::cost(words));
                let given = Waiter::new(key.acquire_many(cost)).granted();
                self.given.push((*key.key(), given));
            }
            "no" => {
                let (key, why) = (self.key(words), words.refusal());
                assert_eq!(kind(key.try_acquire_many(Self::cost(words))), why);
            }
            "wait" => {
                let (key, cost) = (self.key(words), Self::cost(words));
                let waiter = Waiter::parked(key.acquire_many(cost));
                self.waiters.push((*key.key(), waiter));
            }
            // There is no room for the key, for this long if that is known.
            "crowded" => {
                let (key, after) = (self.key(words), words.maybe().map(|Time(after)| after));
                for refused in [key.try_acquire(), key.acquire().wait()] {
                    let error = refused.expect_err("there is room");
                    assert_eq!(error.kind(), ErrorKind::TooManyKeys);
                    assert_eq!(error.retry_after(), after);
                }
            }
            // Each of these keys comes, with any outcome; its grant is dropped.
            "flood" => {
                let (keys, cost) = (words.parse()..words.parse(), words.word());
                for key in keys {
                    let cost = cost.parse().expect("a cost");
                    let _ = self.users.key(&key).try_acquire_many(cost);
                }
            }
            "take" => {
                for key in words.parse()..words.parse() {
                    let given = self.users.key(&key).try_acquire();
                    self.given.push((key, given.expect("it fits")));
                }
            }
            "granted" => {
                let (key, mut waiter) = self.waiters.remove(words.parse());
                // Tokio's timer wakes it when the runtime continues.
                assert!(waiter.wakes() == 1 || runtime.is_some());
                let given = waiter.granted();
                if let Some(Time(at)) = words.maybe() {
                    assert_eq!(T::at(&given), Some(at));
                }
                self.given.push((key, given));
            }
            "pending" => assert!(self.waiters[words.parse::<usize>()].1.is_pending()),
            "refused" => {
                let (_, mut waiter) = self.waiters.remove(words.parse());
                assert_eq!(waiter.refused(), words.refusal());
            }
            "release" => {
                let (key, given) = self.given.remove(words.parse());
                T::give_back(&Arc::clone(&self.users).key_owned(key), given);
            }
            "release-all" => self.given.clear(),
            "left" => {
                let available = T::snapshot(&self.key(words)).available;
                assert_eq!(available, words.parse::<u64>());
            }
            "waiting" => {
                let waiting = T::snapshot(&self.key(words)).waiting;
                assert_eq!(waiting, words.parse::<usize>());
            }
            "len" => assert_eq!(self.users.len(), words.parse::<usize>()),
            "fewer" => assert!(self.users.len() < words.parse()),
            "keys" => {
                let mut keys: Vec<u32> = self.users.keys().collect();
                keys.sort_unstable();
                assert_eq!(
                    keys,
                    std::iter::from_fn(|| words.maybe()).collect::<Vec<_>>()
                );
            }
            _ => T::call(self, call, words),
        }
    }
}

impl<T: Each> Told<T> {
    fn key(&self, words: &mut Words<'_>) -> Key<'static, T, u32> {
        Arc::clone(&self.users).key_owned(words.parse())
    }
}

#[cfg(feature = "tokio")]
fn tokio_clock() -> Clock {
    Clock::tokio()
}

#[cfg(not(feature = "tokio"))]
fn tokio_clock() -> Clock {
    panic!("there is no such clock without the feature")
}

fn run<T: Each>(row: &Row) -> Result<(), Infallible>
where
    T::Permit: Debug,
{
    let told = RefCell::new(Told::<T>::new(&row.setup));
    row.calls(|call, words| told.borrow_mut().call(call, words));
    Ok(())
}

#[test]
fn max_keys_is_how_many_there_is_room_for() {
    for keys in [1, 2, 63, 64, 65, 127, 1000, 4096, 10_000] {
        let row = format!(
            "{keys} | 1/s; keys {keys} | take 0 {keys}, len {keys}, crowded 99999 1s, len {keys}"
        );
        check(&[row.as_str(); 3].join("\n"), run::<RateLimiter>);
    }
}

#[test]
fn rate_limiters_of_keys_in_each_row_do_what_the_row_says() {
    check(RATES, run::<RateLimiter>);
}

#[cfg(feature = "tokio")]
#[test]
fn keys_in_two_runtimes_in_each_row_do_what_the_row_says() {
    check(RUNTIMES, run::<RateLimiter>);
}

#[cfg(feature = "tokio")]
#[test]
fn max_keys_ignores_what_is_owed_in_a_runtime_that_has_ended() {
    let each = RateLimiter::new(Quota::per_hour(1)).clock(Clock::tokio());
    let users = Keyed::<u32, _>::new(each).max_keys(1);
    paused_runtime().block_on(async { users.key(&1).try_acquire().unwrap() });
    assert_eq!(users.keys().count(), 0);
    paused_runtime().block_on(async { users.key(&2).try_acquire().unwrap() });
}

#[test]
fn semaphores_of_keys_in_each_row_do_what_the_row_says() {
    check(PERMITS, run::<Semaphore>);
}
