//! The owed part of a limit under each algorithm: a [`Backlog`] that time pays off in order, a
//! [`Log`] of ticks, or the two counts of a [`Window`]. Numbers are whole and have 128 bits, and
//! tests check them for overflow.

use tollgate::rate::QuotaChange;
use tollgate::{Algorithm, Quota};

use super::Setup;

/// The last tick that differs from later ones.
pub(crate) const LAST_TICK: i128 = (1 << 58) - 1;
/// The largest end of a backlog, the last unit that passes, and the largest count of a window.
const MOST_OWED: i128 = (1 << 60) - 1;
const LAST_UNIT: i128 = MOST_OWED - (1 << 56);
const MOST_COUNTED: i128 = (1 << 48) - 1;
/// The owner of an amount that cannot be refunded.
pub(super) const NOBODY: usize = usize::MAX;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Even,
    Steps,
    Log,
    Window,
}

/// A quota as an algorithm uses it. A token is a whole number of units, and `count` tokens pass in
/// a period: evenly, or all at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(super) kind: Kind,
    pub(super) count: i128,
    pub(super) period: i128,
    pub(super) burst: i128,
    /// The tick from which steps are counted.
    start: i128,
}

impl Rule {
    pub(super) fn new(algorithm: Algorithm, quota: Quota) -> Self {
        let (count, burst) = (i128::from(quota.count()), i128::from(quota.max_burst()));
        let nanos = quota.period().as_nanos() as i128;
        let (kind, count, period, burst) = match algorithm {
            Algorithm::Gcra => (Kind::Even, count, nanos, burst),
            // Tokens without room in the bucket are lost.
            Algorithm::TokenBucket if burst > 1 => (Kind::Steps, count.min(burst), nanos, burst),
            Algorithm::TokenBucket | Algorithm::FixedWindow => (Kind::Steps, count, nanos, count),
            Algorithm::SlidingLog => (Kind::Log, count, nanos, count),
            Algorithm::SlidingWindow => (Kind::Window, count, nanos, count),
            Algorithm::SubInterval { parts } => {
                let each = count / i128::from(parts + 1);
                (Kind::Steps, each, up(nanos, parts.into()), each)
            }
            other => panic!("{other} has no meaning here: add a row"),
        };
        Self {
            kind,
            count,
            period,
            burst,
            start: 0,
        }
    }

    pub(super) fn is_by_word(&self) -> bool {
        matches!(self.kind, Kind::Even | Kind::Steps)
    }

    pub(super) fn is_unlimited(&self) -> bool {
        self.count == u64::MAX.into() && self.period == 1
    }

    /// Returns whether the other rule is the same, perhaps in another notation.
    pub(super) fn is(&self, other: &Self) -> bool {
        let product = |count: i128, period: i128| count as u128 * period as u128;
        let same_rate = product(self.count, other.period) == product(other.count, self.period);
        let same_batch = self.kind == Kind::Even || self.count == other.count;
        same_rate && same_batch && self.burst == other.burst
    }

    /// Returns the next rule. A step that has begun continues, with the length of the new steps.
    pub(super) fn then(&self, next: Self, now: i128) -> Self {
        let passed = (now.min(LAST_TICK) - self.start) / self.period * self.period;
        let is_stepped = i128::from(next.kind == Kind::Steps && next.period > 1);
        Self {
            start: (self.start + passed) * is_stepped,
            ..next
        }
    }

    /// Returns whether it counts by windows. One of a nanosecond is no longer than a tick.
    pub(super) fn has_windows(&self, setup: &Setup) -> bool {
        setup.algorithm == Algorithm::FixedWindow && self.period > 1
    }

    /// Returns the tick at which the next step begins.
    pub(super) fn next_step(&self, now: i128) -> i128 {
        let now = now.min(LAST_TICK);
        self.start + ((now - self.start).max(0) / self.period + 1) * self.period
    }

    /// Returns the units of a token; none without a limit.
    pub(super) fn interval(&self) -> i128 {
        match self.kind {
            Kind::Even if self.is_unlimited() => 0,
            Kind::Even => up(self.period, self.count),
            _ => 1,
        }
    }

    fn tolerance(&self) -> i128 {
        self.interval() * self.burst
    }

    /// Returns the units that have passed at a tick, rounded up by less than `more` / period.
    fn units_with(&self, tick: i128, more: i128) -> i128 {
        let tick = tick.clamp(0, LAST_TICK);
        match self.kind {
            Kind::Even => {
                let units = (self.interval() * self.count * tick + more) / self.period;
                units.min(LAST_UNIT)
            }
            _ => (tick - self.start).max(0) / self.period * self.count,
        }
    }

    /// Returns the whole units that have passed at a tick.
    pub(super) fn units(&self, tick: i128) -> i128 {
        self.units_with(tick, 0)
    }

    /// Returns an amount of this rule in the amounts of another one, rounded up.
    pub(super) fn scaled(&self, amount: i128, to: &Self, how: QuotaChange) -> i128 {
        match how {
            _ if self.is_unlimited() || to.is_unlimited() => 0,
            QuotaChange::Proportional => up(amount * to.tolerance(), self.tolerance()),
            _ => up(amount * to.interval(), self.interval()),
        }
    }

    /// Returns the empty state.
    pub(super) fn owes_nothing(self) -> Box<dyn Owed> {
        match self.kind {
            Kind::Even | Kind::Steps => Box::new(Backlog(self, Vec::new())),
            Kind::Log => Box::new(Log(self, Vec::new(), 0)),
            Kind::Window => Box::new(Window {
                rule: self,
                start: 0,
                previous: 0,
                count: 0,
                ticks: Vec::new(),
            }),
        }
    }
}

/// Divides and rounds up.
pub(super) fn up(number: i128, by: i128) -> i128 {
    number / by + i128::from(number % by > 0)
}

/// The owed part of a limit.
pub(crate) trait Owed {
    fn copy(&self) -> Box<dyn Owed>;
    fn rule(&self) -> &Rule;

    /// Charges the part of a cost for which there is time; returns that part and its tick. A grant
    /// serves a waiter.
    fn charge(&mut self, owner: usize, at: i128, is_grant: bool, cost: i128) -> (i128, i128);
    /// Gives back up to a cost of a charge, except the part that time has paid off.
    fn refund(&mut self, owner: usize, now: i128, cost: i128);
    /// Charges the usage of a hold that began at a tick. It ends the time in which nothing was owed.
    fn settle(&mut self, _owner: usize, _at: i128, _used: i128) {}
    /// Spends the burst as of a tick, except for one token.
    fn spend(&mut self, at: i128);
    /// Adds units or calls that cannot be refunded.
    fn owe(&mut self, now: i128, amount: i128);
    /// Returns what counts at a tick, and how much of that is a token.
    fn counts(&self, tick: i128) -> (i128, i128);
    /// Begins the present step at another tick. What is owed stays.
    fn shift(&mut self, _now: i128, _start: i128) {}
    /// Carries everything over to another rule.
    fn change(&self, to: Rule, how: QuotaChange, now: i128) -> Box<dyn Owed>;

    /// Returns the tokens in use, rounded up.
    fn used(&self, now: i128) -> i128 {
        let (counts, token) = self.counts(now);
        if token == 0 { 0 } else { up(counts, token) }
    }

    /// Returns whether a cost is admitted at a tick. One above the burst is admitted when nothing
    /// is in use.
    fn fits(&self, tick: i128, cost: i128) -> bool {
        let ((counts, token), burst) = (self.counts(tick), self.rule().burst);
        counts + cost.min(burst) * token <= burst * token
    }
}

/// A backlog: stretches of units, one for each charge, which time pays off in order. A stretch has
/// its owner, its first unit, and the unit after its last one.
#[derive(Clone)]
struct Backlog(Rule, Vec<(usize, i128, i128)>);

impl Backlog {
    fn end(&self) -> i128 {
        self.1.last().map_or(0, |last| last.2)
    }

    fn push(&mut self, owner: usize, start: i128, units: i128) {
        self.1.push((owner, start, (start + units).min(MOST_OWED)));
    }
}

impl Owed for Backlog {
    fn copy(&self) -> Box<dyn Owed> {
        Box::new(self.clone())
    }

    fn rule(&self) -> &Rule {
        &self.0
    }

    /// A charge begins now, or at the end of the backlog; one of 0 changes nothing. A grant of an even rule begins there too
    /// if that is within the nanosecond that ends now.
    fn charge(&mut self, owner: usize, at: i128, is_grant: bool, cost: i128) -> (i128, i128) {
        let (rule, end) = (self.0, self.end());
        let (before, now) = (rule.units(at - 1), rule.units(at));
        let is_even = rule.kind == Kind::Even;
        let is_within = before < end;
        let start = if cost == 0 || is_grant && is_even && is_within {
            end
        } else {
            end.max(now)
        };
        let room = (MOST_OWED - start).checked_div(rule.interval());
        let cost = cost.min(room.unwrap_or(cost));
        self.push(owner, start, cost * rule.interval());
        (cost, at)
    }

    fn refund(&mut self, owner: usize, now: i128, cost: i128) {
        let found = self.1.iter().position(|it| it.0 == owner);
        let place = found.expect("a charge of this quota");
        let (_, start, end) = self.1[place];
        let unpaid = (end - start.max(self.0.units(now))).max(0);
        let given = unpaid.min(cost * self.0.interval());
        self.1[place].2 -= given;
        for (_, start, end) in &mut self.1[place + 1..] {
            (*start, *end) = (*start - given, *end - given);
        }
    }

    fn settle(&mut self, owner: usize, at: i128, used: i128) {
        let start = self.end().max(self.0.units(at));
        self.push(owner, start, used * self.0.interval());
    }

    fn spend(&mut self, at: i128) {
        let spent = self.0.units(at) + self.0.tolerance() - self.0.interval();
        let end = self.end();
        self.push(NOBODY, end, (spent - end).max(0));
    }

    /// A unit that has begun to pass is not given out again.
    fn owe(&mut self, now: i128, amount: i128) {
        if amount > 0 {
            let begun = self.0.units_with(now, self.0.period - 1);
            self.push(NOBODY, self.end().max(begun), amount);
        }
    }

    fn shift(&mut self, now: i128, start: i128) {
        let passed = self.0.units(now);
        self.0.start = start;
        let more = self.0.units(now) - passed;
        for (_, start, end) in &mut self.1 {
            (*start, *end) = (*start + more, *end + more);
        }
        self.push(NOBODY, self.end().max(self.0.units(now)), 0);
    }

    fn counts(&self, tick: i128) -> (i128, i128) {
        let units = self.end() - self.0.units(tick);
        (units.max(0), self.0.interval())
    }

    /// A unit that has begun to pass is not given out again, unless nothing was owed for as long. From and
    /// to a quota without a limit nothing is carried over, not even the time in which nothing was owed.
    fn change(&self, to: Rule, how: QuotaChange, now: i128) -> Box<dyn Owed> {
        let mut changed = Self(to, Vec::new());
        if self.0.is_unlimited() || to.is_unlimited() {
            changed.push(NOBODY, to.units(now), 0);
        } else {
            let owed = self.0.scaled(self.counts(now).0, &to, how);
            let idle = (self.0.units(now) - self.end()).max(0);
            let idle = idle * to.interval() / self.0.interval();
            let begun = to.units_with(now, to.period - 1);
            changed.push(NOBODY, (begun - idle).max(0), owed);
        }
        Box::new(changed)
    }
}

/// A log: the newest charges, unit by unit, as many as the limit, and those that wait. A unit has
/// its owner, the tick at which it was asked for, and the tick from which it counts, for a period.
/// Without a free slot it waits for the unit one length of the log before it. The last number is
/// that of the first units, which have no slot since the log became shorter.
#[derive(Clone)]
struct Log(Rule, Vec<(usize, i128, i128)>, usize);

impl Log {
    /// Charges a unit, and returns whether there was time for it.
    fn book(&mut self, owner: usize, asked: i128) -> bool {
        let slots = &self.1[self.2..];
        let before = slots.len().checked_sub(self.0.burst as usize);
        let free = before.map_or(0, |before| slots[before].2 + self.0.period);
        let newest = self.1.last().map_or(0, |unit| unit.2);
        let from = asked.max(free).max(newest);
        if from <= LAST_TICK {
            self.1.push((owner, asked, from));
        }
        from <= LAST_TICK
    }

    /// Removes the units that count only after a tick, which are the last ones.
    fn split(&mut self, now: i128) -> Vec<(usize, i128, i128)> {
        let begun = self.1.iter().take_while(|unit| unit.2 <= now).count();
        self.1.split_off(begun)
    }

    /// Forgets the units whose slots others have taken.
    fn forget(&mut self, now: i128) {
        let later = self.split(now);
        let taken = self.1.len().saturating_sub(self.0.burst as usize);
        self.1.drain(self.2..taken.max(self.2));
        self.1.extend(later);
    }
}

impl Owed for Log {
    fn copy(&self) -> Box<dyn Owed> {
        Box::new(self.clone())
    }

    fn rule(&self) -> &Rule {
        &self.0
    }

    /// Ticks rise: nothing is charged before the newest charge.
    fn charge(&mut self, owner: usize, at: i128, _is_grant: bool, cost: i128) -> (i128, i128) {
        let made = self.1.iter().filter(|unit| unit.1 == unit.2);
        let at = made.map(|unit| unit.2).max().unwrap_or(0).max(at);
        let fits = |_: &i128| self.book(owner, at.min(LAST_TICK));
        ((0..cost).take_while(fits).count() as i128, at)
    }

    /// The newest units go first, and those that wait move up.
    fn refund(&mut self, owner: usize, now: i128, cost: i128) {
        let now = now.min(LAST_TICK);
        self.forget(now);
        let period = self.0.period;
        for _ in 0..cost {
            let given = |unit: &(usize, _, _)| unit.0 == owner && unit.2 + period > now;
            match self.1.iter().rposition(given) {
                Some(last) => drop(self.1.remove(last)),
                None => break,
            }
        }
        for (owner, asked, _) in self.split(now) {
            self.book(owner, asked.max(now));
        }
    }

    /// The burst is spent evenly in the period before the tick; charges that were made later than
    /// that stay where they are. Nothing is spent if that period began before the epoch.
    fn spend(&mut self, at: i128) {
        let (at, most, period) = (at.min(LAST_TICK), self.0.burst, self.0.period);
        self.forget(at);
        let made = self.1.iter_mut().filter(|unit| unit.2 <= at);
        made.for_each(|unit| unit.1 = unit.2);
        // A unit without a slot takes a free one.
        let made = self.1.iter().filter(|unit| unit.2 <= at).count();
        self.2 = self.2.min(made.saturating_sub(most as usize));
        let waits = self.1.last().is_some_and(|unit| unit.2 > at);
        if waits || self.used(at) >= most - 1 || at < period {
            return;
        }
        let made = self.1.split_off(self.2);
        let free = most as usize - made.len();
        for number in 1..most {
            let even = at - period + up(number * period, most);
            let own = (number as usize).checked_sub(free);
            let from = own.map_or(even, |place| made[place].2.max(even));
            self.1.push((NOBODY, from, from));
        }
    }

    fn owe(&mut self, now: i128, amount: i128) {
        (0..amount).all(|_| self.book(NOBODY, now.min(LAST_TICK)));
    }

    fn counts(&self, tick: i128) -> (i128, i128) {
        let counts = |unit: &&(_, _, i128)| unit.2 + self.0.period > tick.min(LAST_TICK);
        (self.1.iter().filter(counts).count() as i128, 1)
    }

    /// All charges stay at their ticks. In proportion, the newest are kept, or each is repeated.
    fn change(&self, to: Rule, how: QuotaChange, now: i128) -> Box<dyn Owed> {
        let (mut old, now) = (self.clone(), now.min(LAST_TICK));
        old.forget(now);
        let mut waiting = old.split(now).len();
        let mut ticks: Vec<i128> = old.1.iter().map(|unit| unit.2).collect();
        if how == QuotaChange::Proportional {
            ticks.retain(|tick| tick + self.0.period > now);
            let (made, used) = (ticks.len(), ticks.len() + waiting);
            let kept = self.0.scaled(used as i128, &to, how) as usize;
            if kept <= used {
                let gone = made.min(used - kept);
                ticks.drain(..gone);
                waiting -= used - kept - gone;
            } else {
                waiting = (waiting * kept).div_ceil(used);
                let past = kept - waiting;
                let back = (0..past.min(to.burst as usize)).rev();
                ticks = back.map(|it| ticks[made - 1 - it * made / past]).collect();
            }
        }
        let apart = ticks.len().saturating_sub(to.burst as usize);
        let units = ticks.into_iter().map(|tick| (NOBODY, tick, tick));
        let mut changed = Self(to, units.collect(), apart);
        changed.owe(now, waiting as i128);
        Box::new(changed)
    }
}

/// The calls of this window, and those of the window before it, which fade. Calls beyond the limit
/// belong to the next windows.
#[derive(Clone)]
struct Window {
    rule: Rule,
    start: i128,
    previous: i128,
    count: i128,
    /// The owners and ticks of the charges.
    ticks: Vec<(usize, i128)>,
}

impl Window {
    /// Returns the state at a tick, perhaps in a later window.
    fn at(&self, now: i128) -> Self {
        let mut this = self.clone();
        let passed = (now.min(LAST_TICK) - self.start) / self.rule.period;
        if passed > 0 {
            let before = (this.count - (passed - 1) * self.rule.burst).max(0);
            this.start += passed * self.rule.period;
            this.previous = before.min(self.rule.burst);
            this.count = before - this.previous;
        }
        this
    }
}

impl Owed for Window {
    fn copy(&self) -> Box<dyn Owed> {
        Box::new(self.clone())
    }

    fn rule(&self) -> &Rule {
        &self.rule
    }

    fn charge(&mut self, owner: usize, at: i128, _is_grant: bool, cost: i128) -> (i128, i128) {
        *self = self.at(at);
        let cost = cost.min(MOST_COUNTED - self.count);
        self.count += cost;
        let tick = at.max(self.start);
        self.ticks.push((owner, tick));
        (cost, tick)
    }

    /// Each full window since the charge has paid off the limit. The rest is first that of the
    /// window before this one.
    fn refund(&mut self, owner: usize, now: i128, cost: i128) {
        *self = self.at(now);
        let found = self.ticks.iter().find(|it| it.0 == owner);
        let (_, tick) = found.expect("a charge of this quota");
        let passed = self.start / self.rule.period - tick / self.rule.period;
        let cost = (cost - (passed - 1).max(0) * self.rule.burst).max(0);
        let before = cost.min(if passed > 0 { self.previous } else { 0 });
        self.previous -= before;
        self.count -= (cost - before).min(self.count);
    }

    fn spend(&mut self, at: i128) {
        let free = self.rule.burst - self.used(at);
        if free > 1 {
            *self = self.at(at);
            self.count += free - 1;
        }
    }

    fn owe(&mut self, now: i128, amount: i128) {
        *self = self.at(now);
        self.count = (self.count + amount).min(MOST_COUNTED);
    }

    fn counts(&self, tick: i128) -> (i128, i128) {
        let (this, period) = (self.at(tick), self.rule.period);
        let elapsed = (tick.min(LAST_TICK) - this.start).max(0);
        let fading = this.previous * (period - elapsed);
        (fading + this.count * period, period)
    }

    /// The fading part fades on. It is rounded down, because the rest counts for longer. Nothing
    /// fades if the counts would be rounded up by more than before.
    fn change(&self, to: Rule, how: QuotaChange, now: i128) -> Box<dyn Owed> {
        let (this, used, now) = (self.at(now), self.used(now), now.min(LAST_TICK));
        let (old, scales) = (self.rule, how == QuotaChange::Proportional);
        let owed = old.scaled(used, &to, how).min(MOST_COUNTED);
        let start = now - now % to.period;
        let left = to.period - (now - start);
        let fading = ((used - this.count).max(0) * owed).checked_div(used);
        let fades = if !scales && to.period == old.period {
            this.previous
        } else {
            fading.unwrap_or(0) * to.period / left
        };
        let fades = fades.min(to.burst);
        let rounded = |part: i128, period: i128| up(part, period) * period - part;
        let before = rounded(
            this.previous * (old.period - (now - this.start).max(0)),
            old.period,
        );
        let [by, of] = if scales {
            [to.burst, old.burst]
        } else {
            [1, 1]
        };
        let most = before * to.period / of * by;
        let is_more = rounded(fades * left, to.period) * old.period > most;
        let previous = if is_more { 0 } else { fades };
        Box::new(Self {
            rule: to,
            start,
            previous,
            count: (owed - up(previous * left, to.period)).max(0),
            ticks: Vec::new(),
        })
    }
}
