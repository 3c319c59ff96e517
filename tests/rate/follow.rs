//! Following the count of a server: by examples, and at random beside the rule that the docs give. How it
//! goes with servers, other clients and latencies, is simulated in `benches/`.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Charge, Quota, RateLimiter};

use crate::setup::{TICK, assert_available, assert_due, assert_limited, limiter, ms, secs};
use crate::support::Waiter;
use crate::support::cases::cases;

/// One each 600 ms, and up to a hundred at once.
pub(crate) const HUNDRED: Quota = Quota::per_minute(100).burst(100);

/// In nanoseconds.
const MINUTE: u64 = 60_000_000_000;

const ALL: [Algorithm; 4] = [
    Algorithm::Gcra,
    Algorithm::FixedWindow,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
];

pub(crate) fn of(algorithm: Algorithm) -> (tollgate::ManualClock, RateLimiter) {
    let (clock, limiter) = limiter(HUNDRED);
    (clock, limiter.algorithm(algorithm))
}

pub(crate) fn available(limiter: &RateLimiter) -> u64 {
    limiter.snapshot().available
}

/// Of the hundred of a server, so many are left.
pub(crate) fn follow(limiter: &RateLimiter, charge: &Charge, left: u64, reset_after: Duration) {
    limiter.follow(charge, 100_u64.saturating_sub(left), reset_after);
}

pub(crate) fn take(limiter: &RateLimiter, calls: usize) -> Vec<Charge> {
    (0..calls).map(|_| limiter.try_acquire().unwrap()).collect()
}

#[test]
fn follow_of_a_server_that_has_less_left_charges_the_difference() {
    for algorithm in ALL {
        let (_clock, limiter) = of(algorithm);
        let charge = limiter.try_acquire().unwrap();
        follow(&limiter, &charge, 40, secs(36));
        assert_available(&limiter, 40);
    }
}

#[test]
fn follow_of_a_server_that_has_more_left_does_nothing() {
    for algorithm in ALL {
        let (_clock, limiter) = of(algorithm);
        let charge = limiter.try_acquire_many(30).unwrap();
        follow(&limiter, &charge, u64::MAX, Duration::MAX);
        assert_eq!(available(&limiter), 70, "{algorithm}");
    }
}

/// The server had not counted what was charged since.
#[test]
fn follow_subtracts_what_was_under_way_when_the_answer_was_made() {
    for algorithm in ALL {
        let (clock, limiter) = of(algorithm);
        follow(&limiter, &limiter.try_acquire().unwrap(), 99, secs(60));
        let mut sent = Vec::new();
        for _ in 0..10 {
            // Calls within a thousandth of a window may come to the server in another order.
            if algorithm == Algorithm::FixedWindow {
                clock.advance(ms(61));
            }
            sent.extend(take(&limiter, 1));
        }
        // Others have taken 19 by then.
        follow(&limiter, &sent[0], 79, secs(60));
        assert_eq!(available(&limiter), 79 - 9, "{algorithm}");
        // When the fifth was counted, no more had been taken by others: they are not charged twice.
        follow(&limiter, &sent[4], 75, secs(60));
        assert_eq!(available(&limiter), 70, "{algorithm}");
        follow(&limiter, &sent[9], 68, secs(60));
        assert_eq!(available(&limiter), 68, "{algorithm}");
    }
}

#[test]
fn follow_of_an_answer_that_is_older_than_one_before_does_nothing() {
    for algorithm in ALL {
        let (clock, limiter) = of(algorithm);
        follow(&limiter, &limiter.try_acquire().unwrap(), 99, secs(60));
        let mut sent = Vec::new();
        for _ in 0..3 {
            clock.advance(ms(61));
            sent.extend(take(&limiter, 1));
        }
        follow(&limiter, &sent[1], 90, secs(60));
        assert_eq!(available(&limiter), 89, "{algorithm}");
        follow(&limiter, &sent[0], 3, secs(60));
        follow(&limiter, &sent[1], 3, secs(60));
        assert_eq!(available(&limiter), 89, "{algorithm}");
        follow(&limiter, &sent[2], 3, secs(60));
        assert_eq!(available(&limiter), 3, "{algorithm}");
    }
}

#[test]
fn follow_of_a_charge_that_is_not_known_does_nothing() {
    for algorithm in ALL {
        let (clock, limiter) = of(algorithm);
        let (_clock, other) = of(algorithm);
        follow(&limiter, &other.try_acquire().unwrap(), 0, secs(60));
        assert_eq!(available(&limiter), 100, "{algorithm}");
        let before = limiter.try_acquire().unwrap();
        limiter.set_quota(Quota::per_minute(50).burst(50));
        let left = available(&limiter);
        follow(&limiter, &before, 0, secs(60));
        assert_eq!(available(&limiter), left, "{algorithm}");
        let before = limiter.try_acquire().unwrap();
        limiter.pause_for(secs(200));
        clock.advance(secs(300));
        let left = available(&limiter);
        follow(&limiter, &before, 0, secs(60));
        assert_eq!(available(&limiter), left, "{algorithm}");
    }
    let (_clock, unlimited) = limiter(Quota::UNLIMITED);
    unlimited.follow(&unlimited.try_acquire().unwrap(), 0, secs(60));
    unlimited.try_acquire_many(1000).unwrap();
}

/// Others may take what is refilled, but what leaves the own log leaves that of the server.
#[test]
fn follow_counts_what_is_free_again_since_the_charge_of_a_log_only() {
    for (algorithm, expected) in [(Algorithm::Gcra, 50), (Algorithm::SlidingLog, 90)] {
        let (clock, limiter) = of(algorithm);
        follow(
            &limiter,
            &limiter.try_acquire_many(40).unwrap(),
            60,
            secs(24),
        );
        clock.advance(secs(40));
        let charge = limiter.try_acquire_many(10).unwrap();
        clock.advance(secs(20));
        follow(&limiter, &charge, 50, secs(60));
        assert_eq!(available(&limiter), expected, "{algorithm}");
    }
}

#[test]
fn follow_of_a_fixed_window_takes_over_the_first_end_and_only_delays_it_then() {
    let (clock, limiter) = of(Algorithm::FixedWindow);
    clock.advance(secs(10));
    let charge = limiter.try_acquire_many(100).unwrap();
    // Its own window would end 50 s later.
    follow(&limiter, &charge, 0, secs(20));
    assert_limited(&limiter, 1, secs(20));
    clock.advance(secs(20) - TICK);
    assert_limited(&limiter, 1, TICK);
    clock.advance(TICK);
    let charge = limiter.try_acquire().unwrap();
    assert_eq!(available(&limiter), 99);

    // Earlier than a period later: it stays.
    follow(&limiter, &charge, 99, secs(55));
    limiter.try_acquire_many(99).unwrap();
    assert_limited(&limiter, 1, secs(60));
    clock.advance(secs(60));
    let charge = limiter.try_acquire().unwrap();
    follow(&limiter, &charge, 99, secs(62));
    let charge = limiter.try_acquire_many(98).unwrap();
    clock.advance(secs(1));
    // A second later than the last time.
    follow(&limiter, &charge, 1, secs(60));
    limiter.try_acquire().unwrap();
    assert_limited(&limiter, 1, secs(59));
}

/// As when the clocks of the two drift. A server that always says that its window ends soon gains nothing.
#[test]
fn follow_of_a_fixed_window_lets_it_end_a_hundredth_earlier_once_a_window() {
    let (clock, limiter) = of(Algorithm::FixedWindow);
    follow(&limiter, &limiter.charge(1), 99, secs(60));
    for window in 1..=3_u32 {
        clock.advance(secs(60));
        assert_eq!(available(&limiter), 100, "{window}");
        follow(&limiter, &limiter.charge(100), 0, secs(59));
        assert_limited(&limiter, 1, secs(60));
        follow(&limiter, &limiter.charge(0), 0, ms(59_500));
        assert_limited(&limiter, 1, secs(60));
    }
    clock.advance(secs(60));
    follow(&limiter, &limiter.charge(100), 0, ms(59_500));
    assert_limited(&limiter, 1, ms(59_500));
    follow(&limiter, &limiter.charge(1), 0, ms(59_000));
    assert_limited(&limiter, 1, ms(59_500));
}

/// Of two answers, the one that knows of more others counts, and each that knows of a later end.
#[test]
fn follow_of_a_fixed_window_counts_the_most_of_others_that_was_told() {
    let (_clock, limiter) = of(Algorithm::FixedWindow);
    follow(&limiter, &limiter.try_acquire().unwrap(), 99, secs(59));
    let sent = take(&limiter, 3);
    // It came first, so the server had not counted the other two.
    follow(&limiter, &sent[2], 89, secs(59));
    follow(&limiter, &sent[0], 88, secs(60));
    assert_eq!(available(&limiter), 89);
    let last = limiter.try_acquire().unwrap();
    follow(&limiter, &last, 95, secs(59));
    assert_eq!(available(&limiter), 88);
    limiter.try_acquire_many(88).unwrap();
    assert_limited(&limiter, 1, secs(60));
}

/// The own window has begun a moment before that of the server.
#[test]
fn follow_of_an_answer_of_the_window_before_delays_the_end_and_leaves_what_is_available() {
    let (clock, limiter) = of(Algorithm::FixedWindow);
    follow(&limiter, &limiter.try_acquire().unwrap(), 99, secs(60));
    clock.advance(secs(60));
    let early = limiter.try_acquire().unwrap();
    follow(&limiter, &early, 0, ms(100));
    assert_eq!(available(&limiter), 99);
    limiter.try_acquire_many(99).unwrap();
    assert_limited(&limiter, 1, secs(60) + ms(100));
    // It has ended when it is read.
    clock.advance(secs(61));
    let late = limiter.try_acquire().unwrap();
    clock.advance(secs(30));
    follow(&limiter, &late, 0, secs(1));
    assert_eq!(available(&limiter), 99);
}

#[test]
fn follow_that_moves_the_end_of_a_window_forward_admits_waiters_then() {
    let (clock, limiter) = of(Algorithm::FixedWindow);
    let charge = limiter.try_acquire_many(100).unwrap();
    let mut waiter = Waiter::parked(limiter.acquire());
    follow(&limiter, &charge, 0, secs(10));
    assert_due(&clock, &mut waiter, secs(10));
}

#[test]
fn follow_of_absurd_answers_is_bounded() {
    for algorithm in ALL {
        let (_clock, limiter) = of(algorithm);
        follow(&limiter, &limiter.try_acquire().unwrap(), 0, Duration::MAX);
        follow(&limiter, &limiter.charge(u64::MAX), 0, Duration::ZERO);
        follow(&limiter, &limiter.charge(u64::MAX), u64::MAX, Duration::MAX);
        let (clock, next) = of(algorithm);
        for _ in 0..10_000 {
            let charge = next.charge(1);
            next.follow(&charge, u64::MAX, Duration::MAX);
        }
        // No longer than it takes to pay off what was charged, and twice the limit.
        clock.advance(103 * secs(60));
        next.try_acquire().unwrap();
    }
}

/// A hold is one of the charges, and may be followed while it is held.
#[test]
fn follow_of_a_hold_counts_what_is_held() {
    let (_clock, limiter) = of(Algorithm::Gcra);
    follow(&limiter, &limiter.try_acquire().unwrap(), 99, secs(60));
    let hold = limiter.hold(limiter.try_acquire_many(30).unwrap());
    follow(&limiter, hold.charge(), 50, secs(60));
    assert_eq!(available(&limiter), 50);
    hold.settle(10);
    assert_eq!(available(&limiter), 70);
}

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Try(u64),
    /// Which one of the charges is answered, and what is left.
    Answer(prop::sample::Index, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>();
    let step = prop_oneof![
        2 => (0..5_000_u64).prop_map(Step::Advance),
        4 => (1..=20_u64).prop_map(Step::Try),
        2 => (index, 0..=100_u64).prop_map(|(which, left)| Step::Answer(which, left)),
    ];
    prop::collection::vec(step, 1..80)
}

/// What was charged, and when.
#[derive(Default)]
struct Sent {
    charges: Vec<(u64, Charge)>,
    /// The newest that was answered, and how much is of others since.
    answered: Option<usize>,
    of_others: (u64, u64),
}

impl Sent {
    /// How much of the charges from `first` on, until `last`, counts in a log at a tick.
    fn counts(&self, range: std::ops::Range<usize>, now: u64) -> u64 {
        let counts = |charge: &&(u64, Charge)| charge.1.at().as_nanos() + MINUTE > now;
        let charges = self.charges[range].iter().filter(counts);
        charges.map(|(cost, _)| cost).sum()
    }

    /// What a log has available at a tick.
    fn available(&self, now: u64) -> u64 {
        let (others, until) = self.of_others;
        let others = if now < until { others } else { 0 };
        100_u64.saturating_sub(self.counts(0..self.charges.len(), now) + others)
    }

    /// An answer is read, unless a later charge was answered.
    fn answer(&mut self, which: usize, left: u64) {
        if self.answered.is_none_or(|newest| which > newest) {
            self.answered = Some(which);
            let at = self.charges[which].1.at().as_nanos();
            let others = (100 - left).saturating_sub(self.counts(0..which + 1, at));
            self.of_others = (others, at + MINUTE);
        }
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn follow_of_a_bucket_counts_at_least_what_the_server_has_counted_and_what_came_since(
        steps in steps(),
    ) {
        let (clock, limiter) = of(Algorithm::Gcra);
        follow(&limiter, &limiter.try_acquire().unwrap(), 100, secs(60));
        let (mut sent, mut charged, mut answered) = (Vec::new(), 0, None);
        for step in steps {
            match step {
                Step::Advance(millis) => clock.advance(ms(millis)),
                Step::Try(cost) => {
                    if let Ok(charge) = limiter.try_acquire_many(cost) {
                        charged += cost;
                        sent.push((charged, charge));
                    }
                }
                Step::Answer(_, _) if sent.is_empty() => {}
                Step::Answer(which, left) => {
                    let (until, charge) = &sent[which.index(sent.len())];
                    let before = limiter.snapshot().in_use;
                    follow(&limiter, charge, left, secs(60));
                    let least = match answered {
                        Some(newest) if *until <= newest => 0,
                        _ => 100 - left + charged - until,
                    };
                    answered = answered.max(Some(*until));
                    prop_assert_eq!(limiter.snapshot().in_use, before.max(least));
                }
            }
        }
    }

    #[test]
    fn follow_of_a_log_counts_what_is_of_others_beside_its_own(steps in steps()) {
        let (clock, limiter) = of(Algorithm::SlidingLog);
        let mut sent = Sent::default();
        sent.charges.push((1, limiter.try_acquire().unwrap()));
        follow(&limiter, &sent.charges[0].1, 99, secs(60));
        sent.answer(0, 99);
        for step in steps {
            let now = clock.now().as_nanos();
            let before = available(&limiter);
            prop_assert_eq!(before, sent.available(now));
            match step {
                Step::Advance(millis) => clock.advance(ms(millis)),
                Step::Try(cost) => {
                    let charge = limiter.try_acquire_many(cost);
                    prop_assert_eq!(charge.is_ok(), cost <= before);
                    sent.charges.extend(charge.ok().map(|charge| (cost, charge)));
                }
                Step::Answer(which, left) => {
                    let which = which.index(sent.charges.len());
                    follow(&limiter, &sent.charges[which].1, left, secs(60));
                    sent.answer(which, left);
                }
            }
        }
    }
}

/// A waiter goes when what is of others is no longer known, though nothing of its own leaves the log.
#[test]
fn follow_of_a_log_admits_waiters_when_what_is_of_others_is_a_period_old() {
    let (clock, limiter) = of(Algorithm::SlidingLog);
    follow(&limiter, &limiter.try_acquire().unwrap(), 0, secs(60));
    assert_limited(&limiter, 1, secs(60));
    let mut waiter = Waiter::parked(limiter.acquire_many(100));
    assert_due(&clock, &mut waiter, secs(60));
}

/// It goes on to grow as it has since the window began.
#[test]
fn follow_of_a_fixed_window_expects_others_to_go_on() {
    let (clock, limiter) = of(Algorithm::FixedWindow);
    follow(&limiter, &limiter.try_acquire().unwrap(), 99, secs(60));
    clock.advance(secs(30));
    let charge = limiter.try_acquire().unwrap();
    clock.advance(secs(10));
    // Of others are 30 after 30 s: 40 after 40 s.
    follow(&limiter, &charge, 68, secs(30));
    assert_eq!(available(&limiter), 58);
    clock.advance(secs(20));
    assert_eq!(available(&limiter), 100);
}
