//! Compares the compiled functions with their translation for the proofs, on random inputs. The inputs and the sums are
//! those of `proofs/coq/Random.v`, whose output is in `proofs/random-inputs`. `docs/design/proofs.md` says how to go on
//! after a failure.

use std::time::Duration;

use super::super::choice::Algorithm;
use super::super::ledger::pause::{end_of_pause, has_ended};
use super::super::params::Params;
use super::super::quota_change::QuotaChange;
use super::super::refunds::{Refunds, newer, refundable};
use super::super::rule::Rule;
use super::super::sliding_log::scaled;
use super::super::sliding_window::{SlidingWindow, WindowParts};
use super::Tat;
use crate::quota::Quota;
use crate::time::{Tick, granted_at, not_before};

/// A linear congruential generator, and the sum of all values.
struct Draws {
    state: u64,
    sum: u64,
}

impl Draws {
    fn next(&mut self) -> u64 {
        const FACTOR: u64 = 6_364_136_223_846_793_005;
        self.state = self.state.wrapping_mul(FACTOR);
        self.state = self.state.wrapping_add(1_442_695_040_888_963_407);
        self.state
    }

    /// Returns a number of random length.
    fn draw(&mut self) -> u64 {
        let number = self.next();
        number >> (self.next() >> 58)
    }

    fn add(&mut self, value: u64) {
        self.sum = self.sum.wrapping_mul(5).wrapping_add(value).wrapping_add(1);
    }

    /// Adds the results of all functions of parameters.
    fn call(&mut self, params: &Params, tick: u64, units: u64, number: u64) {
        let at = Tick::from_nanos(tick);
        let (passed, tat) = (params.units_at(at), Tat::from_units(units));
        let price = number % (params.burst_tolerance + 1);
        let taken = match tat.take(params, passed, price) {
            Ok(tat) => tat.end(),
            Err(unit) => unit.wrapping_add(1),
        };
        let (charged, cost) = tat.charge_part(params, passed, number);
        let begun = if params.is_stepped() {
            params.step_begun(at)
        } else {
            0
        };
        let unless_dense = if params.is_dense() {
            0
        } else {
            params.units_unless_dense(at)
        };
        let values = [
            params.surplus[0],
            params.surplus[1],
            params.lack[0],
            params.lack[1],
            params.emission_interval,
            params.burst_tolerance,
            params.step,
            params.start as u64,
            params.stride,
            passed,
            params.units_after(at),
            params.tick_at(units).as_nanos(),
            params.units_of(number),
            params.tokens(units),
            params.backlog(units),
            params.burst(),
            begun as u64,
            params.start_after_change(number.is_multiple_of(2), at) as u64,
            tat.end(),
            tat.backlog_at(passed),
            taken,
            tat.give(number).end(),
            tat.due_after(params, number, number).as_nanos(),
            tat.grant_start(params, at),
            charged.end(),
            cost,
            u64::from(params.is_dense()),
            u64::from(params.is_stepped()),
            u64::from(params.is_even()),
            unless_dense,
        ];
        for value in values {
            self.add(value);
        }
    }

    fn call_all(&mut self) {
        let [period, count, burst, tick, units, number, start] = [(); 7].map(|()| self.draw());
        let accepted = Quota::try_new(count, Duration::from_nanos(period), burst).is_ok();
        self.add(u64::from(accepted));
        let period = period.max(1);
        let least = period.div_ceil(1 << 58);
        let count = count.min(period.saturating_mul(16)).max(least);
        let most = (u128::from(count) << 58) / u128::from(period);
        let even = 1 + u128::from(burst) % most.min(1 << 56);
        let quota = Quota::try_new(count, Duration::from_nanos(period), even as u64);
        let quota = quota.unwrap();
        let even = Params::new(quota);
        self.call(&even, tick, units, number);

        let period = period.min(1 << 58);
        let batches = Params::stepped(count.min(period), period, burst.clamp(1, 1 << 56));
        let start = (start / 2) as i64 - (1 << 57);
        let batches = batches.starting(start);
        self.call(&batches, tick, units, number);
        self.call_others(&even, &batches, quota, [tick, units, number]);
        self.call_rules(quota, number);
        let count = count.min(period);
        let burst = if number.is_multiple_of(2) { 1 } else { count };
        let short = Quota::try_new(count, Duration::from_nanos(period), burst);
        self.call_rules(short.unwrap(), number);
    }

    /// Adds the results of the functions of two sets of parameters, of a quota and of refunds.
    fn call_others(
        &mut self,
        even: &Params,
        batches: &Params,
        quota: Quota,
        [tick, units, number]: [u64; 3],
    ) {
        let (at, tat) = (Tick::from_nanos(tick), Tat::from_units(units));
        for (old, new) in [(even, batches), (batches, even)] {
            for how in [QuotaChange::Proportional, QuotaChange::KeepSpent] {
                self.add(tat.carry(how, old, new, at).end());
            }
        }
        self.add(newer(units, tick, number));
        self.add(refundable(number, units, tick));
        self.call_pauses([tick, units, number].map(Tick::from_nanos));
        self.call_windows(quota, [tick, units, number]);
        self.call_logs([tick, units, number]);
        let nodes = 1 + number % 1000;
        let period = u128::from(quota.period_nanos()) * u128::from(nodes);
        let fits = period <= u128::from(quota.count()) << 58;
        let share = quota.share(if fits { nodes as u32 } else { 1 });
        for value in [share.count(), share.period_nanos(), share.max_burst()] {
            self.add(value);
        }
    }

    /// Adds the results of the functions of a pause, also at the last tick and at three equal ones.
    fn call_pauses(&mut self, [one, two, three]: [Tick; 3]) {
        let never = Tick::from_nanos(u64::MAX);
        for [end, until, now] in [
            [one, two, three],
            [one, never, three],
            [one, one, one],
            [two, never, never],
        ] {
            self.add(end_of_pause(end, until, now).as_nanos());
            self.add(u64::from(has_ended(end, now)));
            self.add(not_before(until, end).as_nanos());
            self.add(u64::from(until.has_come(now)));
            self.add(granted_at(end, until, now).as_nanos());
        }
    }

    /// Adds the windows after changes of a quota, both ways.
    fn call_windows(&mut self, quota: Quota, [tick, units, number]: [u64; 3]) {
        let (period, burst) = (quota.period_nanos().min(1 << 58), quota.max_burst());
        let other = 1 + burst % (1 << 58);
        let promise = |count: u64, period: u64| {
            let count = 1 + count % period.min(1 << 40);
            Algorithm::SlidingWindow.promise(Quota::new(count, Duration::from_nanos(period)))
        };
        let (old, new) = (promise(number, period), promise(units, other));
        let now = tick % (1 << 57);
        let start = now as i64 - (units % period) as i64;
        let parts = WindowParts {
            start,
            origin: start,
            previous: burst % (1 + old.batch.count()),
            count: number % (1 << 41),
        };
        for how in [QuotaChange::Proportional, QuotaChange::KeepSpent] {
            let mut window = SlidingWindow::of_parts(&old, parts);
            window.change(&new, how, Tick::from_nanos(now));
            let parts = window.parts();
            for value in [parts.start as u64, parts.previous, parts.count] {
                self.add(value);
            }
        }
    }

    /// Adds the numbers of charges of a log after a change in proportion.
    fn call_logs(&mut self, [tick, units, number]: [u64; 3]) {
        let old = 1 + number % 64;
        let made = units % (old + 1);
        let ahead = if made == old { tick % 100 } else { 0 };
        let (ticks, ahead) = scaled((0..made).collect(), ahead, old, 1 + units % 64);
        self.add(ticks.len() as u64);
        self.add(ahead);
    }

    /// Adds which rule a quota gets with each algorithm, if any; and for one of them, the parameters. A new algorithm
    /// needs its case in `proofs/coq/Rule.v`.
    fn call_rules(&mut self, quota: Quota, number: u64) {
        let parts = (number % 8) as u32;
        for (at, &algorithm) in Algorithm::all().iter().enumerate() {
            let algorithm = match algorithm {
                Algorithm::SubInterval { .. } => Algorithm::SubInterval { parts },
                other => other,
            };
            if algorithm.check(quota).is_err() {
                self.add(0);
                continue;
            }
            let batch = algorithm.batch(quota);
            for value in [1, batch.count(), batch.period_nanos(), batch.max_burst()] {
                self.add(value);
            }
            if at as u64 != number % Algorithm::all().len() as u64 {
                continue;
            }
            let params = algorithm.promise(quota).params();
            for value in [
                params.emission_interval,
                params.burst_tolerance,
                params.surplus[0],
                params.step,
                params.stride,
            ] {
                self.add(value);
            }
        }
    }

    /// Adds what 2,500 refunds give, of charges that are sometimes paid off.
    fn refund_all(&mut self) {
        let (mut refunds, mut newest, mut unpaid) = (Refunds::default(), 0, 0);
        for _ in 0..2500 {
            let [price, back, units] = [(); 3].map(|()| self.draw());
            newest += 1 + price % 1000;
            unpaid += 1 + price % 1000;
            if (self.state >> 40).is_multiple_of(2000) {
                unpaid /= 2;
            }
            let given = refunds.give(newest, newest - back % (unpaid + 1), units % 8, unpaid);
            unpaid -= given;
            self.add(given);
        }
    }
}

#[test]
fn functions_on_random_inputs_agree_with_their_translation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/proofs/random-inputs");
    let sums = std::fs::read_to_string(path).unwrap();
    let (refunds, sums) = sums
        .trim_end()
        .rsplit_once('\n')
        .map_or(("", ""), |(sums, it)| (it, sums));
    let mut draws = Draws { state: 1, sum: 0 };
    let mut compared = 0;
    for sum in sums.lines() {
        for _ in 0..100 {
            draws.call_all();
        }
        assert_eq!(
            draws.sum.to_string(),
            sum,
            "after draw {compared}, compiled and proved functions differ: see docs/design/proofs.md"
        );
        compared += 100;
    }
    assert!(compared >= 2500, "{compared}");
    let mut draws = Draws { state: 1, sum: 0 };
    draws.refund_all();
    assert_eq!(draws.sum.to_string(), refunds);
}
