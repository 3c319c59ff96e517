//! Whoever owns a place and has not written its time yet, while others come and go: step by step.

use std::sync::Arc;
use std::time::Duration;

use super::{Position, Stamp, Stamps, View};
use crate::algorithm::Algorithm;
use crate::quota::Quota;
use crate::rate::config::Config;
use crate::rate::core::{Core, Decided};
use crate::rate::options::Carry;
use crate::rate::rule::Memory;
use crate::time::{Clock, ManualClock, Tick};

const PERIOD: u64 = 1000;
const START: u64 = 5000;

struct Scene {
    core: Arc<Core>,
    clock: ManualClock,
    quota: Quota,
}

/// Interrupted after it has moved the word on.
struct Owner<'a> {
    view: View<'a>,
    head: Position,
    found: Stamp,
}

impl Owner<'_> {
    /// Goes on; says at which tick it was charged.
    fn write(self, nanos: u64) -> u64 {
        let Stamps::Long(places) = self.view.stamps else {
            panic!("a long one");
        };
        let mine = Stamp::new(Some(nanos), self.view.lap(self.head));
        match mine.exchange(&places[self.head.index as usize], self.found) {
            Ok(()) => nanos,
            Err(other) => self.found.written_by_another(other, mine, self.view.period),
        }
    }
}

impl Scene {
    /// At a tick at which no place is one that was free since ever.
    fn new(count: u64) -> Self {
        let clock = Clock::manual();
        clock.advance(Duration::from_nanos(START));
        let quota = Quota::new(count, Duration::from_nanos(PERIOD));
        let mut config = Config::new();
        config.algorithm = Algorithm::SlidingLog;
        config.clock = Clock::from(&clock);
        let core = Core::new(quota, config);
        core.reconfigure(quota, Carry::Reset);
        Self { core, clock, quota }
    }

    fn owner(&self) -> Owner<'_> {
        self.owner_at(self.clock.now().as_nanos())
    }

    /// Whose clock is perhaps ahead of the others'.
    fn owner_at(&self, nanos: u64) -> Owner<'_> {
        let Some(Memory::Log(log)) = self.core.rule.as_deref() else {
            panic!("a log");
        };
        let (view, seen) = (log.view(), self.core.cell.load());
        let head = Position::of(seen);
        let found = view.stamps.load(head.index, None).expect("a place");
        assert!(found.free_from(PERIOD) <= nanos);
        assert!(
            self.core
                .cell
                .exchange(seen, head.after(1, view.len).value())
        );
        Owner { view, head, found }
    }

    fn advance(&self, nanos: u64) {
        self.clock.advance(Duration::from_nanos(nanos));
    }

    /// Without the lock: the tick of the charge, or that at which to come again.
    fn decide(&self) -> Result<u64, u64> {
        match self.core.decide_by_rule(1, self.clock.now()) {
            Decided::Charged(charge) => Ok(charge.at.as_nanos()),
            Decided::Limited { due, .. } => Err(due.as_nanos()),
            Decided::Held | Decided::Lost => panic!("neither held nor lost"),
        }
    }

    fn available(&self) -> u64 {
        self.core.look_ahead(0).decision.remaining
    }
}

#[test]
fn who_comes_to_its_place_writes_it_as_of_now() {
    let scene = Scene::new(1);
    scene.advance(300);
    let owner = scene.owner();
    assert_eq!(scene.decide(), Err(6300));
    assert_eq!(owner.write(5300), 5300);
    assert_eq!(scene.decide(), Err(6300));
}

#[test]
fn who_comes_with_a_clock_that_is_behind_writes_it_a_period_after_what_was_there() {
    let scene = Scene::new(1);
    assert_eq!(scene.decide(), Ok(5000));
    scene.advance(999);
    let owner = scene.owner_at(6000);
    assert_eq!(scene.available(), 0);
    assert_eq!(owner.write(6000), 6000);
    scene.advance(1);
    assert_eq!(scene.decide(), Err(7000));
}

#[test]
fn who_holds_the_lock_counts_it() {
    let scene = Scene::new(2);
    let owner = scene.owner();
    assert_eq!(scene.available(), 1);
    assert_eq!(owner.write(5000), 5000);
    assert_eq!(scene.available(), 1);
}

/// The clocks of two threads may disagree: by the tick that was written it is free again.
#[test]
fn it_is_charged_at_what_another_has_written_if_that_is_earlier() {
    let scene = Scene::new(1);
    let owner = scene.owner();
    assert_eq!(scene.decide(), Err(6000));
    assert_eq!(owner.write(5001), 5000);
}

#[test]
fn it_is_charged_a_period_before_the_next_at_its_place_at_the_latest() {
    let scene = Scene::new(1);
    let owner = scene.owner();
    assert_eq!(scene.decide(), Err(6000));
    scene.advance(1000);
    assert_eq!(scene.decide(), Ok(6000));
    assert_eq!(owner.write(5001), 5000);
    assert_eq!(scene.decide(), Err(7000));
}

#[test]
fn after_many_laps_it_is_charged_when_its_place_was_free() {
    for laps in 2..40_u64 {
        let scene = Scene::new(1);
        let owner = scene.owner();
        assert!(scene.decide().is_err());
        for lap in 1..=laps {
            scene.advance(1000);
            assert_eq!(scene.decide(), Ok(START + lap * PERIOD));
        }
        // Laps are told apart up to 32 of them; then it takes its own word for it.
        let told_apart = laps % 32 > 1;
        assert_eq!(owner.write(5001), if told_apart { 5000 } else { 5001 });
        assert_eq!(scene.decide(), Err(START + (laps + 1) * PERIOD));
    }
}

/// Though its place had been free for long.
#[test]
fn after_many_laps_it_is_charged_at_most_a_period_before_it_came() {
    for laps in 2..30 {
        let scene = Scene::new(1);
        scene.advance(500_000);
        let owner = scene.owner();
        assert!(scene.decide().is_err());
        for _ in 1..=laps {
            scene.advance(1000);
            scene.decide().unwrap();
        }
        assert_eq!(owner.write(505_000), 504_000);
    }
}

#[test]
fn a_change_of_the_quota_leaves_it_charged_no_earlier_and_takes_nothing_from_it() {
    for carry in [Carry::Reset, Carry::Additive, Carry::Proportional] {
        for count in [1, 2, 3] {
            let scene = Scene::new(count);
            scene.advance(10_000);
            scene.core.reconfigure(scene.quota, Carry::Reset);
            let owner = scene.owner();
            scene.core.reconfigure(scene.quota, carry);
            assert_eq!(owner.write(15_000), 15_000, "{carry:?}");
            let free = if carry == Carry::Reset {
                count
            } else {
                count - 1
            };
            assert_eq!(scene.available(), free);
            for _ in 0..free {
                assert_eq!(scene.decide(), Ok(15_000));
            }
            assert_eq!(scene.decide(), Err(16_000));
        }
    }
}

#[test]
fn a_refund_leaves_it_charged_no_earlier() {
    for count in [2, 3] {
        let scene = Scene::new(count);
        let owner = scene.owner();
        let charge = scene.core.try_take(1).expect("there is one");
        scene.core.refund(&charge, 1);
        assert_eq!(owner.write(5000), 5000);
        assert_eq!(scene.available(), count - 1);
    }
}

#[test]
fn to_be_forgotten_leaves_it_charged_no_earlier() {
    for count in [1, 2] {
        let scene = Scene::new(count);
        let owner = scene.owner();
        scene.core.restart();
        assert_eq!(owner.write(5000), 5000);
        assert_eq!(scene.available(), count);
        assert_eq!(scene.decide(), Ok(5000));
    }
}

#[test]
fn the_end_of_time_is_written_as_such() {
    let scene = Scene::new(1);
    scene.clock.advance(Duration::MAX);
    let owner = scene.owner();
    assert_eq!(
        scene.decide(),
        Err(Tick::after_epoch(Duration::MAX).as_nanos())
    );
    assert_eq!(
        owner.write(crate::algorithm::LAST_TICK),
        crate::algorithm::LAST_TICK
    );
}
