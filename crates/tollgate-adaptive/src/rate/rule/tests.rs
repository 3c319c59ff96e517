//! Tests the rule in single steps, and against a rule that is written in the most obvious way.

use proptest::prelude::*;

use super::*;

const LIMITS: (f64, f64) = (1.0, 1e6);

const NO_PAUSE: Duration = Duration::ZERO;

fn at(seconds: f64) -> Tick {
    Tick::from_nanos((seconds * 1e9) as u64)
}

/// Requests at the rate of the rule from one time to another; all of them succeed.
fn all_succeed(rule: &mut RateRule, from: f64, to: f64, succeeded: &mut u64) {
    let mut now = from;
    while now < to {
        rule.grow(at(now), *succeeded);
        *succeeded += 1;
        now += 1.0 / rule.rate;
    }
}

#[test]
fn grow_before_a_refusal_doubles_four_times_in_five_seconds() {
    let (mut rule, mut succeeded) = (RateRule::new(LIMITS, 100.0), 0);
    all_succeed(&mut rule, 0.0, 5.0, &mut succeeded);
    assert!((1_500.0..1_650.0).contains(&rule.rate), "{}", rule.rate);
}

#[test]
fn grow_without_use_changes_nothing() {
    let mut rule = RateRule::new(LIMITS, 100.0);
    // A third of the rate.
    for n in 0..1_000 {
        rule.grow(at(n as f64 * 0.03), n);
    }
    assert_eq!(rule.rate, 100.0);
    // No request for an hour.
    rule.grow(at(3_600.0), 1_000);
    assert_eq!(rule.rate, 100.0);
}

#[test]
fn refuse_cuts_once_for_requests_that_began_before_a_sample_after_the_cut() {
    let mut rule = RateRule::new(LIMITS, 100.0);
    assert!(rule.refuse(at(1.0), at(1.1), 50, NO_PAUSE));
    assert_eq!(rule.rate, 85.0);
    // Eight calls at 85 per second take 94 ms, and a sample is at least 100 ms.
    for began in [0.5, 1.05, 1.1, 1.199] {
        assert!(!rule.refuse(at(began), at(1.3), 60, NO_PAUSE));
    }
    assert!(rule.refuse(at(1.2), at(1.3), 60, NO_PAUSE));
    assert_eq!((rule.refusals, rule.cuts), (6, 2));
}

#[test]
fn refuse_of_everything_cuts_to_half_each_time() {
    let mut rule = RateRule::new(LIMITS, 1_000.0);
    rule.refuse(at(0.0), at(0.0), 0, NO_PAUSE);
    assert_eq!(rule.rate, 850.0);
    rule.refuse(at(0.2), at(0.2), 0, NO_PAUSE);
    assert_eq!(rule.rate, 850.0 / 2.0 * 0.85);
}

/// Refuses everything for this number of cuts, from a time on, and returns the time of the end.
fn all_refused(rule: &mut RateRule, from: f64, cuts: u64, succeeded: u64) -> f64 {
    let mut now = from;
    let end = rule.cuts + cuts;
    while rule.cuts < end {
        now += 1.0 / rule.rate;
        rule.grow(at(now), succeeded);
        rule.refuse(at(now), at(now), succeeded, NO_PAUSE);
    }
    now
}

#[test]
fn grow_after_an_outage_is_soon_at_the_remembered_rate() {
    for cuts in [10, 500] {
        let mut rule = RateRule::new(LIMITS, 1_000.0);
        let mut succeeded = 1_000;
        rule.refuse(at(1.0), at(1.0), succeeded, NO_PAUSE);
        all_succeed(&mut rule, 1.0, 6.0, &mut succeeded);
        // The remembered rate is the plateau of this cut.
        rule.refuse(at(6.0), at(6.0), succeeded, NO_PAUSE);
        let plateau = rule.rate / 0.85;
        assert!((plateau - 1_000.0).abs() < 30.0, "{plateau}");
        let end = all_refused(&mut rule, 6.0, cuts, succeeded);
        assert_eq!((rule.rate, rule.remembered), (3.0, plateau));
        all_succeed(&mut rule, end, end + 4.5, &mut succeeded);
        assert!(rule.rate > plateau, "{}", rule.rate);
        // Above it the rate doubles every 2.1 seconds, because the search began at three per second.
        let rate = rule.rate;
        all_succeed(&mut rule, end + 4.5, end + 6.6, &mut succeeded);
        assert!((1.8..2.1).contains(&(rule.rate / rate)));
    }
}

#[test]
fn refuse_after_an_outage_on_the_way_cuts_to_what_goes_through() {
    let mut rule = RateRule::new(LIMITS, 1_000.0);
    let mut succeeded = 1_000;
    rule.refuse(at(1.0), at(1.0), succeeded, NO_PAUSE);
    let mut now = all_refused(&mut rule, 1.0, 20, succeeded);
    // Now the server accepts 30 per second.
    let (mut last, mut refused) = (now, 0);
    let end = now + 6.0;
    while now < end {
        rule.grow(at(now), succeeded);
        now += 1.0 / rule.rate;
        if now - last >= 1.0 / 30.0 {
            (last, succeeded) = (now, succeeded + 1);
        } else {
            refused += 1;
            rule.refuse(at(now), at(now), succeeded, NO_PAUSE);
        }
    }
    assert!((10.0..60.0).contains(&rule.rate), "{}", rule.rate);
    assert!(refused < 60, "{refused}");
}

#[test]
fn refuse_of_a_slower_server_forgets_one_percent_of_the_rate_before() {
    let mut rule = RateRule::new(LIMITS, 100.0);
    rule.remembered = 1_000.0;
    let (mut now, mut succeeded) = (0.0, 0);
    for cut in 1..=200 {
        all_succeed(&mut rule, now, now + 2.0, &mut succeeded);
        now += 2.0;
        rule.rate = 100.0;
        assert!(rule.refuse(at(now), at(now), succeeded, NO_PAUSE));
        let faded = 1_000.0 * 0.99_f64.powi(cut);
        let ratio = rule.remembered / faded.max(rule.rate / 0.85);
        assert!((0.999..1.2).contains(&ratio), "{cut}: {ratio}");
    }
    assert!(rule.remembered < 140.0);
}

#[test]
fn refuse_by_a_slower_server_cuts_to_what_went_through() {
    let mut rule = RateRule::new(LIMITS, 1_000.0);
    rule.refuse(at(0.0), at(0.0), 0, NO_PAUSE);
    // The rate is 850 per second; 500 of them go through.
    for ms in 1..=200_u32 {
        rule.grow(at(f64::from(ms) / 1e3), u64::from(ms) / 2);
    }
    assert!(rule.refuse(at(0.15), at(0.2), 100, NO_PAUSE));
    assert!((rule.rate - 0.85 * 500.0).abs() < 10.0, "{}", rule.rate);
}

#[test]
fn refuse_after_a_bucket_filled_up_aims_below_the_rate_at_the_cut() {
    let mut rule = RateRule::new(LIMITS, 1_000.0);
    rule.refuse(at(0.0), at(0.0), 0, NO_PAUSE);
    let mut succeeded = 0;
    all_succeed(&mut rule, 0.0, 8.0, &mut succeeded);
    let rate = rule.rate;
    let went_through = succeeded as f64 / 8.0;
    assert!(went_through < 0.99 * rate);
    rule.refuse(at(8.0), at(8.0), succeeded, NO_PAUSE);
    let plateau = rate - (rate - went_through) / 4.0;
    assert!((rule.rate - 0.85 * plateau).abs() < 1.0);
}

#[test]
fn grow_after_a_pause_neither_grows_nor_counts_it() {
    let mut rule = RateRule::new(LIMITS, 1_000.0);
    rule.refuse(at(0.0), at(0.0), 0, NO_PAUSE);
    let mut succeeded = 0;
    all_succeed(&mut rule, 0.0, 5.0, &mut succeeded);
    let (used, active) = (rule.used, rule.active);
    rule.grow(at(65.0), succeeded);
    assert_eq!(rule.used, used);
    assert!(rule.active - active < 0.1);
}

#[test]
fn follow_clock_of_a_clock_that_was_set_back_goes_on() {
    let (mut rule, mut succeeded) = (RateRule::new(LIMITS, 100.0), 0);
    rule.refuse(at(1_000.0), at(1_000.0), 0, NO_PAUSE);
    all_succeed(&mut rule, 0.0, 1.0, &mut succeeded);
    assert!(rule.used > 0.8);
    assert!(rule.refuse(at(1.0), at(1.0), succeeded, NO_PAUSE));
}

/// The rule in the most obvious form: it keeps all events since the last cut, and computes
/// everything again each time.
struct Naive {
    rate: f64,
    /// When each step began to count and was made, the successes until then, and whether it may grow.
    steps: Vec<(Tick, Tick, u64, bool)>,
    begin: (Tick, u64),
    /// The end of the last pause.
    resumes: Tick,
    plateau: Option<f64>,
    remembered: f64,
    /// The rate at which the search began, if there is no plateau.
    start: f64,
    cut: Option<Tick>,
    pause: Duration,
    initial: f64,
    /// The rate below which a search without a plateau is faster.
    searches_to: f64,
}

impl Naive {
    fn step(&self, rate: f64) -> f64 {
        (4.0 / rate).max(0.02)
    }

    /// Returns the seconds that were used, and those in which there were calls, until `now`.
    fn replay(&self, until: Option<Tick>) -> (f64, f64, f64) {
        let (_, mut succeeded) = self.begin;
        let remembered = match self.plateau {
            Some(plateau) => self.usual(plateau),
            None => self.searches_to,
        };
        let stretch = match self.plateau {
            Some(plateau) => self.least_recovery(plateau) / 75_f64.cbrt(),
            None => 5.0 / self.start,
        };
        let stretch = stretch.max(1.0);
        let search = |mut rate: f64, mut seconds: f64| {
            if rate < remembered {
                let fast = seconds.min(0.2 * stretch * (remembered / rate).log2());
                rate *= (fast / 0.2 / stretch).exp2();
                seconds -= fast;
            }
            rate * (seconds / 1.25 / stretch).exp2()
        };
        let mut rate = self.plateau.map_or(self.start, |plateau| 0.85 * plateau);
        rate = rate.clamp(LIMITS.0, LIMITS.1);
        let (mut used, mut active) = (0.0, 0.0);
        for (from, now, count, grows) in &self.steps {
            let passed = now.saturating_since(*from).as_secs_f64();
            let most = passed.min(4.0 * self.step(rate));
            active += most;
            if *grows && 2.0 * (count - succeeded) as f64 >= rate * passed {
                used += most;
                rate = match self.plateau {
                    None => search(self.start, used),
                    Some(plateau) => {
                        let k = self.recovery(plateau);
                        let c = 0.15 * plateau / k.powi(3);
                        let cubic = |t: f64| plateau + c * (t - k).powi(3);
                        search(cubic(used.min(2.0 * k)), (used - 2.0 * k).max(0.0))
                    }
                };
                rate = rate.clamp(LIMITS.0, LIMITS.1);
            }
            succeeded = *count;
        }
        if let Some(until) = until {
            let passed = until.saturating_since(self.from()).as_secs_f64();
            active += passed.min(4.0 * self.step(rate));
        }
        (rate, used, active)
    }

    /// The rate to which `C` is proportional, and below which a search is faster.
    fn usual(&self, plateau: f64) -> f64 {
        let soon = (75.0 * plateau / self.remembered).cbrt();
        if self.remembered > 4.0 * plateau && soon >= self.least_recovery(plateau) {
            self.remembered
        } else {
            plateau
        }
    }

    fn least_recovery(&self, plateau: f64) -> f64 {
        let of_pause = (12.0 * self.pause.as_secs_f64()).min(1_800.0);
        of_pause.max(50.0 / plateau)
    }

    fn recovery(&self, plateau: f64) -> f64 {
        let usual = (75.0 * plateau / self.usual(plateau)).cbrt();
        usual.max(self.least_recovery(plateau))
    }

    /// The tick from which on the next step counts.
    fn from(&self) -> Tick {
        let last = self.steps.last().map_or(self.begin.0, |step| step.1);
        last.max(self.resumes)
    }

    /// Returns when calls go again after a pause.
    fn after(&self, now: Tick, pause: Duration) -> Tick {
        let of_call = Duration::from_secs_f64(1.0 / self.rate);
        now.saturating_add(pause.saturating_sub(of_call))
    }

    fn grow(&mut self, now: Tick, succeeded: u64) {
        let from = self.from();
        if now.saturating_since(from).as_secs_f64() < self.step(self.rate) {
            return;
        }
        self.steps.push((from, now, succeeded, true));
        self.rate = self.replay(None).0;
    }

    fn refuse(&mut self, began: Tick, now: Tick, succeeded: u64, pause: Duration) -> bool {
        let sample = 0.1_f64.max(8.0 / self.rate);
        if let Some(cut) = self.cut {
            if began.saturating_since(cut).as_secs_f64() < sample {
                let (from, after) = (self.from(), self.after(now, pause));
                if after > now.max(from) {
                    self.steps.push((from, now, succeeded, false));
                    self.resumes = after;
                }
                return false;
            }
        }
        let (rate, used, active) = self.replay(Some(now));
        let through = (succeeded - self.begin.1) as f64 / active.max(1e-9);
        let none = used == 0.0 && 10.0 * through < rate;
        let is_unseen = self.cut.is_some() && succeeded == 0;
        let is_down = none && (is_unseen || self.remembered > 0.0);
        let searched = self
            .plateau
            .is_none_or(|it| used >= 2.0 * self.recovery(it))
            && !is_down;
        let found = if searched || through >= rate {
            rate
        } else if through < 0.85 * rate {
            through.max(0.5 * rate)
        } else {
            0.75 * rate + 0.25 * through
        };
        self.remembered *= if is_down { 1.0 } else { 0.99 };
        let many = self.remembered == 0.0 && succeeded - self.begin.1 >= 50;
        let known = if searched { many } else { !none };
        if known && found > self.remembered {
            self.remembered = found;
        }
        self.searches_to = if is_unseen {
            self.initial
        } else {
            self.remembered
        };
        let after = self.after(now, pause);
        let least = if is_down { rate.min(3.0) } else { 0.0 };
        self.rate = (0.85 * found).max(least).clamp(LIMITS.0, LIMITS.1);
        self.pause = pause;
        (self.plateau, self.start) = ((!is_down).then_some(found), self.rate);
        (self.begin, self.cut) = ((now, succeeded), Some(now));
        self.resumes = after;
        self.steps.clear();
        true
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Time passes, this number of requests succeed in the meantime, and another one is admitted.
    Grow(u64, u64),
    /// A request that began this long ago is refused, with a wait of so many milliseconds.
    Refuse(u64, u64),
}

fn event() -> impl Strategy<Value = Event> {
    let nanos = prop_oneof![
        8 => 0..200_000_000_u64,
        1 => Just(0),
        1 => 0..20_000_000_000_u64,
        1 => Just(u64::MAX),
    ];
    prop_oneof![
        4 => (nanos.clone(), 0..200_u64).prop_map(|(after, count)| Event::Grow(after, count)),
        1 => (nanos, prop_oneof![2 => Just(0), 1 => 0..200_000_u64])
            .prop_map(|(ago, pause)| Event::Refuse(ago, pause)),
    ]
}

proptest! {
    #[test]
    fn any_sequence_keeps_the_rate_within_the_limits_and_agrees_with_the_naive_rule(
        start in 0.1..1e6,
        events in prop::collection::vec(event(), 0..300),
    ) {
        let mut rule = RateRule::new(LIMITS, start);
        let mut naive = Naive {
            rate: rule.rate,
            steps: Vec::new(),
            begin: (Tick::default(), 0),
            resumes: Tick::default(),
            plateau: None,
            remembered: 0.0,
            start: rule.rate,
            cut: None,
            pause: NO_PAUSE,
            initial: start,
            searches_to: 0.0,
        };
        let (mut now, mut succeeded) = (Tick::default(), 0);
        for event in events {
            match event {
                Event::Grow(after, count) => {
                    now = now.saturating_add(Duration::from_nanos(after));
                    succeeded += count;
                    rule.grow(now, succeeded);
                    naive.grow(now, succeeded);
                }
                Event::Refuse(ago, pause) => {
                    let pause = Duration::from_millis(pause);
                    let began = Tick::from_nanos(now.as_nanos().saturating_sub(ago));
                    let cut = rule.refuse(began, now, succeeded, pause);
                    prop_assert_eq!(naive.refuse(began, now, succeeded, pause), cut);
                }
            }
            let rate = rule.rate;
            prop_assert!((LIMITS.0..=LIMITS.1).contains(&rate));
            prop_assert!((rate / naive.rate - 1.0).abs() < 1e-6, "{} {}", rate, naive.rate);
            prop_assert!(rule.next_step() >= rule.last_step);
        }
    }

    #[test]
    fn refusals_alone_never_raise_the_rate(gaps in prop::collection::vec(any::<u64>(), 0..100)) {
        let mut rule = RateRule::new(LIMITS, 1e6);
        let mut now = Tick::default();
        for gap in gaps {
            let before = rule.rate;
            now = now.saturating_add(Duration::from_nanos(gap));
            rule.refuse(now, now, 0, NO_PAUSE);
            prop_assert!((LIMITS.0..=before).contains(&rule.rate));
        }
    }
}
