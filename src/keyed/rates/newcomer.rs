//! A key that is new: what it begins with, and for whom there may be room without others.

use std::hash::{BuildHasher, Hash};

use super::super::at_cap::AtCap;
use super::super::map::Rule;
use super::super::table::{Home, Standing};
use super::side::{Side, Terms};
use super::state::State;
use super::word::Word;
use crate::error::AcquireError;
use crate::rate::DedicatedLimiter;
use crate::time::Tick;

/// A key that owes nothing since so long makes room even where there is more.
const SPARE: Tick = Tick::from_nanos(60_000_000_000);

/// What a newcomer is judged by.
pub(super) struct Newcomer<'a, K, S> {
    pub(super) state: &'a State<K, S>,
    pub(super) own: Option<Terms>,
    pub(super) now: Tick,
}

impl<K, S> Rule<K, Word, Side> for Newcomer<'_, K, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    fn standing(&self, side: &Side, number: usize, word: &Word, spare: bool) -> Standing {
        let terms = self.state.terms_of(side, number);
        let Some(debt) = word.debt() else {
            let slot = word.slot().unwrap_or_default();
            let retired = side.cold.lines.get(slot).try_reclaim(self.now);
            return if retired.is_some() {
                Standing::Recovered
            } else {
                Standing::Pinned
            };
        };
        let mut now = self.now;
        if spare {
            now = Tick::from_nanos(now.as_nanos().saturating_sub(SPARE.as_nanos()));
        }
        let until = terms.paid_off(debt);
        if until <= now {
            return Standing::Recovered;
        }
        Standing::Owes(until.as_nanos() - now.as_nanos())
    }

    type Released = Option<DedicatedLimiter>;

    fn evicts(&self) -> bool {
        self.state.at_cap != AtCap::Refuse
    }

    fn refused(&self, after: Option<u64>) -> AcquireError {
        self.state.template.no_room(after)
    }

    fn displace(&self, side: &mut Side, home: Home, number: usize, word: &Word) {
        let terms = self.state.terms_of(side, number);
        if let Some(debt) = word.debt() {
            side.fold(home, terms.paid_off(debt));
        }
    }

    fn make(&self, side: &mut Side, home: Home, _old: Option<&Word>) -> Word {
        let terms = self.own.unwrap_or(side.terms);
        Word::owes(side.unfolded(home, &terms, self.now))
    }

    fn released(&self, side: &mut Side, word: &Word) -> Option<DedicatedLimiter> {
        side.cold.lines.take(word.slot()?)
    }

    fn moved(&self, side: &mut Side, word: &Word, from: usize, to: usize) {
        side.renumber(*word, from, to);
    }

    fn settled(&self, side: &mut Side, number: usize) {
        if let Some(own) = self.own {
            side.set_own(number, own.quota);
        }
    }
}
