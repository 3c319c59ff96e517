//! Large numbers of limiters, waiters and refunds; a limiter distinguishes only a bounded number of
//! refunds, and beyond that gives back less, never more.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use tollgate::rate::Charge;
use tollgate::time::ManualClock;
use tollgate::{Clock, ErrorKind, Quota, RateLimiter};

use crate::setup::secs;
use crate::support::cases::cases;
use crate::support::random::Random;
use crate::support::{Waiter, ends};

const BURST: u64 = 1000;

/// One unit is one token is one nanosecond, so that the debt is visible.
struct Ledger {
    clock: ManualClock,
    limiter: RateLimiter,
    /// The kept part of each charge: its time, its size, and whether it was forced.
    kept: Vec<(u64, u64, bool)>,
    charges: Vec<(Charge, usize)>,
}

impl Ledger {
    fn new() -> Self {
        let clock = Clock::manual();
        let quota = Quota::new(1, Duration::from_nanos(1)).burst(BURST);
        Self {
            limiter: RateLimiter::new(quota).clock(&clock),
            clock,
            kept: Vec::new(),
            charges: Vec::new(),
        }
    }

    /// Returns how long it takes until the whole burst fits.
    fn owed(&self) -> u64 {
        let after = self.limiter.peek_many(BURST).retry_after;
        u64::try_from(after.expect("it is paid off").as_nanos()).expect("some nanoseconds")
    }

    fn charged(&mut self, charge: Charge, forced: bool) {
        self.kept
            .push((charge.at().as_nanos(), charge.cost(), forced));
        self.charges.push((charge, self.kept.len() - 1));
    }

    /// Refunds this many quarters of a charge. The debt is at least the one that the kept charges
    /// alone would leave.
    fn refund(&mut self, which: Index, quarters: u64) {
        let (charge, number) = self.charges.remove(which.index(self.charges.len()));
        let (cost, before) = (charge.cost(), self.owed());
        self.limiter
            .settle(charge, cost - (cost * quarters).div_ceil(4));
        self.kept[number].1 -= before - self.owed();
        let end = self.kept.iter().fold(0, |end: u64, (at, units, _)| {
            if *units == 0 {
                return end;
            }
            end.max(*at) + units
        });
        let owed = end.saturating_sub(self.clock.now().as_nanos());
        assert!(self.owed() >= owed, "a refund minted");
    }

    /// Checks the kept charges, from each charge to each that was asked whether it fits.
    fn assert_promise(&self) {
        for (first, (from, ..)) in self.kept.iter().enumerate() {
            let mut total = 0;
            for (to, units, forced) in &self.kept[first..] {
                total += units;
                assert!(*forced || total <= BURST + (to - from) + 1);
            }
        }
    }
}

/// Few cases, because each is long.
#[test]
fn any_number_of_refunds_mints_nothing() {
    let steps = (
        prop::collection::vec(1..4_u64, 1500),
        prop::collection::vec((any::<Index>(), 0..2_u64, 1..=4_u64), 1450),
    );
    let config = ProptestConfig {
        max_shrink_iters: 0,
        ..cases(2)
    };
    let cases = TestRunner::new(config).run(&steps, |(large, order)| {
        let mut ledger = Ledger::new();
        for cost in large {
            let charge = ledger.limiter.charge(cost);
            ledger.charged(charge, true);
        }
        for (which, nanos, quarters) in order {
            ledger.refund(which, quarters);
            ledger.clock.advance(Duration::from_nanos(nanos));
            if let Ok(charge) = ledger.limiter.try_acquire_many(1 + nanos) {
                ledger.charged(charge, false);
            }
        }
        ledger.assert_promise();
        Ok(())
    });
    cases.unwrap();
}

/// At one tick, the greatest number of distinguished charges is given back in full, in an order in
/// which hardly any two are of one stretch; in the order of the charges, any number.
#[test]
fn refund_of_many_charges_at_one_tick_gives_all_of_it_back() {
    let evens_first = |number: usize| (number % 2, number);
    let forward = |number: usize| (0, number);
    let backward = |number: usize| (0, usize::MAX - number);
    type Order = fn(usize) -> (usize, usize);
    let rows: [(u64, Order, bool); 5] = [
        (64, evens_first, true),
        (1000, evens_first, true),
        (4000, evens_first, false),
        (4000, forward, true),
        (4000, backward, true),
    ];
    for (count, order, all_of_it) in rows {
        let ledger = Ledger::new();
        let charges = (0..count).map(|_| ledger.limiter.charge(5));
        let mut charges: Vec<_> = charges.enumerate().collect();
        assert_eq!(ledger.owed(), 5 * count);
        charges.sort_by_key(|(number, _)| order(*number));
        for (_, charge) in charges {
            ledger.limiter.refund(charge);
        }
        assert!(ledger.owed() < 5 * count);
        assert_eq!(ledger.owed() == 0, all_of_it, "{}", ledger.owed());
    }
    // In any order, each gives its own charge back at once.
    for seed in 0..20 {
        let ledger = Ledger::new();
        let mut charges: Vec<_> = (0..200).map(|_| ledger.limiter.charge(1)).collect();
        let mut random = Random::new(seed);
        for left in (0..200).rev() {
            let which = random.below(charges.len() as u32) as usize;
            ledger.limiter.refund(charges.swap_remove(which));
            assert_eq!(ledger.owed(), left, "seed {seed}");
        }
    }
}

/// Many limiters on one clock are due at one tick, and each arms its timer again: in sequence,
/// without nesting.
#[test]
fn many_limiters_that_are_due_at_one_tick_do_not_nest() {
    let clock = Clock::manual();
    let limiters: Vec<_> = (0..5000)
        .map(|_| RateLimiter::new(Quota::per_second(1)).clock(&clock))
        .collect();
    let mut waiters = Vec::new();
    for limiter in &limiters {
        limiter.try_acquire().unwrap();
        waiters.push(Waiter::parked(limiter.acquire()));
        waiters.push(Waiter::parked(limiter.acquire()));
    }
    for gone in 1..=2 {
        clock.advance(Duration::from_secs(1));
        let woken = waiters.iter().filter(|waiter| waiter.wakes() > 0).count();
        assert_eq!(woken, gone * limiters.len());
    }
}

/// More waiters than one call serves.
const MANY: usize = 12 * AT_ONCE;

/// The most that one call serves.
const AT_ONCE: usize = 1024;

/// Nobody polls, and there are no other calls.
#[test]
fn close_on_the_system_clock_wakes_every_waiter() {
    ends(|| {
        let limiter = RateLimiter::new(Quota::per_hour(1));
        limiter.try_acquire().unwrap();
        let join = |_| Waiter::parked(limiter.acquire());
        let mut waiters: Vec<_> = (0..MANY).map(join).collect();
        limiter.close();
        while waiters.iter().any(|waiter| waiter.wakes() == 0) {
            std::thread::yield_now();
        }
        assert_eq!(limiter.snapshot().waiting, 0);
        for waiter in &mut waiters {
            assert_eq!(waiter.refused(), ErrorKind::Closed);
        }
    });
}

/// All are granted at one tick: the rest does not wait for the next millisecond of the timer.
#[cfg(feature = "tokio")]
#[test]
fn set_quota_on_paused_time_grants_all_before_time_passes() {
    use std::sync::Arc;
    use tokio::time::Instant;
    use tollgate::rate::QuotaChange;

    /// A quota that admits all at once.
    const FAST: Quota = Quota::per_second(1_000_000).burst(2 * MANY as u64);

    crate::support::paused_runtime().block_on(async {
        // Not at a whole millisecond of the timer.
        tokio::time::advance(Duration::from_micros(1500)).await;
        let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1)).clock(Clock::tokio()));
        limiter.try_acquire().unwrap();
        let wait = |_| tokio::spawn(Arc::clone(&limiter).acquire_owned());
        let waiters: Vec<_> = (0..MANY).map(wait).collect();
        while limiter.snapshot().waiting < MANY {
            tokio::task::yield_now().await;
        }
        let start = Instant::now();
        limiter.set_quota_with(FAST, QuotaChange::KeepSpent);
        for waiter in waiters {
            waiter.await.unwrap().unwrap();
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

/// Waiters far in front are not visited one by one: their sum is known, and departures since count
/// until few are in front, or few behind.
#[test]
fn delay_behind_many_waiters_is_exact_or_counts_those_who_have_left() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(1)).clock(&clock);
    limiter.try_acquire().unwrap();
    let join = |_| Waiter::parked(limiter.acquire());
    let mut front: Vec<_> = (0..MANY).map(join).collect();
    let middle = limiter.reserve().unwrap();
    let behind: Vec<_> = (0..MANY).map(join).collect();
    let last = limiter.reserve().unwrap();
    let delays = || [&middle, &last].map(|it| it.delay());
    let many = MANY as u64;
    assert_eq!(delays(), [secs(many + 1), secs(2 * many + 2)]);
    // Every other one of those in front leaves. The last one has the most waiters in front.
    let mut stays = false;
    front.retain(|_| {
        stays = !stays;
        stays
    });
    let half = many / 2;
    assert_eq!(delays()[1], secs(half + many + 2));
    // The sum of the first thousand remaining waiters is known, and they were every other one.
    assert_eq!(delays()[0], secs(many + 1 - AT_ONCE as u64 + 1));
    clock.advance(secs(half - AT_ONCE as u64));
    assert_eq!(delays()[0], secs(AT_ONCE as u64 + 1));
    // No more than the sum of all waiters.
    drop(behind);
    assert_eq!(delays(), [1, 2].map(|more| secs(AT_ONCE as u64 + more)));
}
