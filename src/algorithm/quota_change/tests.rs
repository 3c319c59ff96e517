//! Tests that no sequence of changes admits more than the largest rate and burst, if the spent
//! number is kept, and what a sequence admits otherwise.

use std::time::Duration;

use proptest::prelude::*;

use super::super::choice::Algorithm;
use super::super::gcra::Origin;
use super::super::rule_state::RuleState;
use super::*;
use crate::quota::Quota;
use crate::time::Tick;

const SECOND: u64 = 1_000_000_000;

/// A rule whose quota changes, and its charges: ticks, and the sum of the costs at each.
struct World {
    algorithm: Algorithm,
    rule: RuleState,
    now: u64,
    charges: Vec<(u64, u64)>,
}

impl World {
    fn new(algorithm: Algorithm, quota: Quota) -> Self {
        let mut rule = RuleState::new(algorithm, quota, Origin::NONE);
        rule.lock(rule.tat());
        Self {
            algorithm,
            rule,
            now: 0,
            charges: Vec::new(),
        }
    }

    fn note(&mut self, at: u64) {
        match self.charges.last_mut() {
            Some((tick, cost)) if *tick == at => *cost += 1,
            _ => self.charges.push((at, 1)),
        }
    }

    /// Charges calls of cost 1 as long as they are admitted now.
    fn take_all(&mut self) {
        let now = Tick::from_nanos(self.now);
        while self.rule.due(0, 1) <= now {
            self.rule.charge(now, 1);
            self.note(self.now);
        }
    }

    /// Moves the time. A queue of this length is served meanwhile, some nanoseconds late.
    fn serve_until(&mut self, until: u64, waiters: u64, late: u64) {
        for _ in 0..waiters {
            let at = self
                .now
                .max(self.rule.due(0, 1).as_nanos().saturating_add(late));
            if at > until {
                break;
            }
            self.now = at;
            self.rule.grant(Tick::from_nanos(at), 1);
            self.note(at);
        }
        self.now = until;
    }

    fn change(&mut self, quota: Quota, how: QuotaChange) {
        let promise = self.algorithm.promise(quota);
        let now = Tick::from_nanos(self.now);
        self.rule.change(&promise, how, now);
        self.rule.forget_receipts();
    }

    fn total(&self) -> u64 {
        self.charges.iter().map(|(_, cost)| cost).sum()
    }

    /// Checks the bound of the largest of these quotas between every two charges.
    fn assert_promise(&self, quotas: &[Quota]) {
        let most = most_of(self.algorithm, quotas);
        for (first, (from, _)) in self.charges.iter().enumerate() {
            let mut total = 0;
            for (to, cost) in &self.charges[first..] {
                total += cost;
                let most = most(to - from + 1);
                assert!(
                    u128::from(total) <= most,
                    "{}: {total} of {most} from {from} to {to}: {:?}",
                    self.algorithm,
                    self.charges
                );
            }
        }
    }
}

/// Returns the maximum in a time, including its first nanosecond and excluding its end, under a
/// quota with the largest rate and burst of these.
fn most_of(algorithm: Algorithm, quotas: &[Quota]) -> impl Fn(u64) -> u128 {
    let batches: Vec<_> = quotas.iter().map(|it| algorithm.batch(*it)).collect();
    let all = || batches.iter().copied();
    let largest = |value: fn(Quota) -> u64| all().map(value).max().unwrap();
    let (count, burst) = (largest(Quota::count), largest(Quota::max_burst));
    let period = all().map(Quota::period_nanos).min().unwrap();
    let fastest = all().reduce(|one, other| {
        let product = |count: &Quota, period: &Quota| {
            u128::from(count.count()) * u128::from(period.period_nanos())
        };
        if product(&one, &other) < product(&other, &one) {
            other
        } else {
            one
        }
    });
    let fastest = fastest.unwrap();
    move |nanos| {
        let rate = u128::from(fastest.count()) * u128::from(nanos);
        let evenly = u128::from(burst) + rate / u128::from(fastest.period_nanos());
        let steps = u128::from(nanos - 1).div_ceil(period.into());
        match algorithm {
            // The estimate of a window falls at most at the rate, so the bound is the same.
            Algorithm::Gcra | Algorithm::SlidingWindow => evenly,
            Algorithm::SlidingLog => u128::from(nanos).div_ceil(period.into()) * u128::from(count),
            _ => u128::from(burst) + steps * u128::from(count),
        }
    }
}

/// Draws quotas that fit the algorithm: of a few nanoseconds, or of awkward rates.
fn quota(algorithm: Algorithm) -> impl Strategy<Value = Quota> {
    let short = (5..=12_u64, prop_oneof![12..=120_u64, 95..=100_u64]);
    let awkward = prop::sample::select(vec![
        (3, SECOND),
        (7, SECOND),
        (7, 1_001_000_000),
        (700_000_000, SECOND),
        (10, 9),
        (11, 10),
        (5, 2),
        (16, 1),
    ]);
    let burst = prop_oneof![1 => Just(1), 3 => 1..=20_u64];
    (short, awkward, 0..3_u8, burst).prop_map(move |(short, awkward, which, burst)| {
        let of = |(count, period)| Quota::new(count, Duration::from_nanos(period));
        match algorithm {
            Algorithm::Gcra if which == 0 => of(awkward).burst(burst),
            Algorithm::Gcra | Algorithm::TokenBucket => of(short).burst(burst),
            _ => of(short),
        }
    })
}

/// The time until the next change: none, a few nanoseconds, until a call is due, until a window
/// ends, or longer.
#[derive(Clone, Copy, Debug)]
enum Pause {
    Nanos(u64),
    UntilDue,
    UntilMultiple,
}

/// A pause, whether a queue is served meanwhile and how late, the number of the next quota, and
/// whether calls come before and after the change.
type Step = (Pause, Option<u64>, usize, [bool; 2]);

fn step() -> impl Strategy<Value = Step> {
    let pause = prop_oneof![
        1 => Just(Pause::Nanos(0)),
        3 => (1..4_u64).prop_map(Pause::Nanos),
        2 => (0..60_u64).prop_map(Pause::Nanos),
        1 => (0..SECOND).prop_map(Pause::Nanos),
        2 => Just(Pause::UntilDue),
        1 => Just(Pause::UntilMultiple),
    ];
    let serves = prop_oneof![3 => Just(None), 1 => (0..3_u64).prop_map(Some)];
    let takes = prop_oneof![3 => Just([true, true]), 1 => any::<[bool; 2]>()];
    (pause, serves, any::<usize>(), takes)
}

fn run(world: &mut World, quotas: &[Quota], steps: Vec<Step>, how: QuotaChange) {
    let mut present = quotas[0];
    for (pause, serves, next, takes) in steps {
        let until = match pause {
            Pause::Nanos(nanos) => world.now + nanos,
            Pause::UntilDue => world.now.max(world.rule.due(0, 1).as_nanos()),
            Pause::UntilMultiple => (world.now + 1).next_multiple_of(present.period_nanos()),
        };
        match serves {
            Some(late) => world.serve_until(until, 20, late),
            None => world.now = until,
        }
        if takes[0] {
            world.take_all();
        }
        present = quotas[next % quotas.len()];
        world.change(present, how);
        if takes[1] {
            world.take_all();
        }
    }
}

/// Tests random sequences of changes of some random quotas, with callers that take everything.
macro_rules! keep_spent {
    ($($name:ident: $algorithm:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(2000))]
            $(
                #[test]
                fn $name(
                    start in prop_oneof![0..=3_u64, 0..10 * SECOND],
                    quotas in prop::collection::vec(quota($algorithm), 2..=4),
                    steps in prop::collection::vec(step(), 1..80),
                ) {
                    let mut world = World::new($algorithm, quotas[0]);
                    world.now = start;
                    run(&mut world, &quotas, steps, QuotaChange::KeepSpent);
                    world.assert_promise(&quotas);
                }
            )*
        }
    };
}

keep_spent! {
    keep_spent_by_gcra_admits_no_more_than_the_largest_rate_and_burst: Algorithm::Gcra;
    keep_spent_by_a_bucket_admits_no_more_than_the_largest_batch: Algorithm::TokenBucket;
    keep_spent_by_windows_admits_no_more_than_the_largest: Algorithm::FixedWindow;
    keep_spent_by_a_sliding_window_admits_no_more_than_the_largest: Algorithm::SlidingWindow;
    keep_spent_by_a_log_admits_no_more_than_the_largest: Algorithm::SlidingLog;
    keep_spent_by_parts_admits_no_more_than_the_largest: Algorithm::SubInterval { parts: 3 };
}

/// Returns the number of calls that are admitted in a minute while two quotas alternate.
fn in_a_minute(every: u64, how: QuotaChange) -> u64 {
    let quotas = [
        Quota::per_second(100).burst(10),
        Quota::per_second(10).burst(100),
    ];
    let mut world = World::new(Algorithm::Gcra, quotas[0]);
    world.take_all();
    for number in 1..60 * SECOND / every {
        world.serve_until(number * every, u64::MAX, 0);
        world.change(quotas[number as usize % 2], how);
        world.take_all();
    }
    world.total()
}

/// The figures are those of the documentation of [`QuotaChange`].
#[test]
fn change_that_alternates_mints_in_proportion_only() {
    for (every, most) in [(2_000_000, 30_309), (100_000_000, 3_309)] {
        assert_eq!(in_a_minute(every, QuotaChange::Proportional), most);
        let kept = in_a_minute(every, QuotaChange::KeepSpent);
        assert!(kept <= 100 + 60 * 100, "{kept} each {every} ns");
    }
}

/// Each change comes just when a backlog ends, and when most of the next unit has passed.
#[test]
fn change_when_nothing_is_owed_gives_out_no_part_of_a_unit() {
    let quota = |count| Quota::new(count, Duration::from_nanos(count - 1)).burst(2);
    let quotas: Vec<_> = (10..40).map(quota).collect();
    let mut world = World::new(Algorithm::Gcra, quotas[0]);
    world.now = 8;
    for quota in &quotas {
        world.change(*quota, QuotaChange::KeepSpent);
        world.take_all();
        world.now += 1;
    }
    world.assert_promise(&quotas);
}

#[test]
fn scaled_keeps_what_each_way_says() {
    // From 10 tokens of 100 units, with 4 spent, to 20 of 50, or 2 of 50.
    let owed = |how: QuotaChange, burst: u64| how.scaled(400, [1000, burst * 50], [100, 50]);
    assert_eq!(owed(QuotaChange::Proportional, 20), 400);
    assert_eq!(owed(QuotaChange::KeepSpent, 20), 4 * 50);
    assert_eq!(owed(QuotaChange::Proportional, 2), 40);
    assert_eq!(owed(QuotaChange::KeepSpent, 2), 4 * 50);
}

#[test]
fn scaled_rounds_up() {
    assert_eq!(QuotaChange::Proportional.scaled(1, [3, 2], [1, 1]), 1);
    assert_eq!(QuotaChange::KeepSpent.scaled(1, [3, 2], [3, 2]), 1);
    assert_eq!(
        QuotaChange::Proportional.scaled(u64::MAX, [1, u64::MAX], [1, 1]),
        u64::MAX
    );
}
