//! A try by the long form of a log, if there is nothing else to be heeded.
//!
//! What decides is a function of its own, and answers in two registers. So it has little to put
//! aside, and what was taken is written once, by the caller, for whom the rest is inlined.
//!
//! It decides as the log [does elsewhere](Core::decide_by_log), but what is not plain, as a place
//! that is pending, is *lost*: that is for the way that tries again.

use super::{Log, Stamps};
use crate::algorithm::LAST_TICK;
use crate::error::AcquireError;
use crate::rate::cell::Seen;
use crate::rate::charge::Charge;
use crate::rate::core::{Core, Decided};
use crate::time::Tick;

/// What was [decided](Decided), as far as it fits into two registers.
#[derive(Debug, PartialEq, Eq)]
struct Brief {
    /// When it was charged; or what is later than any of that.
    at: u64,
    /// The ticket of the charge, or for how long it is refused.
    number: u64,
}

impl Brief {
    const LIMITED: u64 = u64::MAX;
    const LOST: Self = Self {
        at: u64::MAX - 1,
        number: 0,
    };

    #[inline(always)]
    fn of(decided: Decided) -> Self {
        match decided {
            Decided::Charged(charge) => Self {
                at: charge.at.as_nanos(),
                number: charge.ticket,
            },
            Decided::Limited { due, now } => Self {
                at: Self::LIMITED,
                number: due.as_nanos().saturating_sub(now.as_nanos()),
            },
            Decided::Held | Decided::Lost => Self::LOST,
        }
    }
}

impl Core {
    /// Takes so much now, or not at all.
    #[inline(always)]
    pub(in crate::rate) fn try_by_log(
        &self,
        log: &Log,
        cost: u64,
        now: Tick,
    ) -> Result<Charge, AcquireError> {
        let seen = self.cell.load();
        if seen.is_held() || cost != 1 {
            return self.try_held(cost);
        }
        // What is known of it before: the generation must not be read after the word was changed.
        let charge = self.remembered(0, now, 1);
        match self.decide_in_brief(log, seen, now) {
            Brief { at, number } if at <= LAST_TICK => Ok(Charge {
                ticket: number,
                at: Tick::from_nanos(at),
                ..charge
            }),
            Brief {
                at: Brief::LIMITED,
                number,
            } => Err(AcquireError::limited_nanos(number)),
            _ => self.try_slowly(cost),
        }
    }

    /// Decides whether one may go.
    #[inline(never)]
    fn decide_in_brief(&self, log: &Log, seen: Seen, now: Tick) -> Brief {
        let view = log.view();
        match view.stamps {
            // Beyond that a tick could not be told from what is none.
            Stamps::Long(places) if now.as_nanos() <= LAST_TICK => {
                Brief::of(self.decide_by_place(&view, places, seen, now, |_, _, _| None))
            }
            _ => Brief::LOST,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::Position;
    use super::*;
    use crate::algorithm::Algorithm;
    use crate::quota::Quota;
    use crate::rate::config::Config;
    use crate::rate::options::Carry;
    use crate::rate::rule::Memory;
    use crate::time::Clock;

    const PERIOD: u64 = 1000;

    fn quota(count: u64) -> Quota {
        Quota::new(count, Duration::from_nanos(PERIOD))
    }

    fn core(count: u64) -> Arc<Core> {
        let mut config = Config::new();
        config.algorithm = Algorithm::SlidingLog;
        config.clock = Clock::from(&Clock::manual());
        Core::new(quota(count), config)
    }

    fn log(core: &Core) -> &Log {
        match core.rule.as_deref() {
            Some(Memory::Log(log)) => log,
            _ => panic!("a log"),
        }
    }

    fn in_brief(core: &Core, nanos: u64) -> Brief {
        core.decide_in_brief(log(core), core.cell.load(), Tick::from_nanos(nanos))
    }

    #[test]
    fn what_is_plain_is_decided_as_elsewhere() {
        for count in [1, 2, 3, 7] {
            let (brief, other) = (core(count), core(count));
            let mut nanos = 5 * PERIOD;
            for step in 0..500 {
                if step == 250 {
                    // More than there is room for.
                    brief.reconfigure(quota(count + 5), Carry::Additive);
                    other.reconfigure(quota(count + 5), Carry::Additive);
                }
                let decided = other.decide_by_rule(1, Tick::from_nanos(nanos));
                assert!(matches!(
                    decided,
                    Decided::Charged(_) | Decided::Limited { .. }
                ));
                assert_eq!(in_brief(&brief, nanos), Brief::of(decided));
                nanos += step * 37 % 400;
            }
        }
    }

    #[test]
    fn it_is_refused_for_as_long_as_it_takes() {
        let core = core(1);
        let charged = |at, number| Brief { at, number };
        assert_eq!(in_brief(&core, 5000), charged(5000, 1));
        let limited = |number| Brief {
            at: Brief::LIMITED,
            number,
        };
        assert_eq!(in_brief(&core, 5000), limited(1000));
        assert_eq!(in_brief(&core, 5999), limited(1));
        assert_eq!(in_brief(&core, 6000), charged(6000, 2));
    }

    #[test]
    fn a_place_that_is_pending_is_left_to_the_way_that_tries_again() {
        let core = core(1);
        let seen = core.cell.load();
        let next = Position::of(seen).next(1);
        assert!(core.cell.exchange(seen, next.value()));
        assert_eq!(in_brief(&core, 5000), Brief::LOST);
        let now = Tick::from_nanos(5000);
        let refused = core.try_by_log(log(&core), 1, now).unwrap_err();
        assert_eq!(refused.retry_after(), Some(Duration::from_nanos(PERIOD)));
    }

    #[test]
    fn a_tick_beyond_the_last_is_left_to_it_as_well() {
        let core = core(1);
        assert_eq!(in_brief(&core, LAST_TICK + 1), Brief::LOST);
        assert_eq!(in_brief(&core, u64::MAX), Brief::LOST);
        assert_eq!(
            in_brief(&core, LAST_TICK),
            Brief {
                at: LAST_TICK,
                number: 1
            }
        );
    }

    #[test]
    fn who_wants_more_than_one_or_comes_while_it_is_held_is_told_under_the_lock() {
        let core = core(3);
        let now = Tick::from_nanos(0);
        let charge = core
            .try_by_log(log(&core), 2, now)
            .expect("there are three");
        assert_eq!(charge.cost(), 2);
        core.cell.hold();
        let charge = core.try_by_log(log(&core), 1, now).expect("there is one");
        assert_eq!(charge.ticket, 3);
    }
}
