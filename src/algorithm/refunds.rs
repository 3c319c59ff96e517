//! What was given back of charges, as far as it matters for what may be given back later.
//!
//! Time pays charges off in the order in which they were made. What it has not paid off yet of a
//! charge can be given back without admitting a later call too early: the charges before it are not
//! touched, and those after it begin that much earlier, all of them still in the future. What has
//! been paid off is over: another call may have been admitted on the strength of it, or it was lost
//! at the full burst.
//!
//! 1. The *ticket* of a charge is the [end](super::Tat) of the backlog just after it, plus all that
//!    had been given back before. Tickets rise with every charge, whatever is given back.
//! 2. To give back moves the charges after it forward. So a charge ends now at its ticket, less all
//!    that has been given back, plus what was given back of charges after it, which did not move it.
//! 3. What was given back of charges that are paid off does not count any more: every charge before
//!    such a one is paid off too. Only the others are kept, at most [`CAPACITY`]. Beyond that two
//!    are taken for one, as if both were of the earlier charge; that makes later refunds smaller,
//!    never larger.

/// How many refunds are told apart.
const CAPACITY: usize = 1024;

/// The refunds of charges that are not paid off.
#[derive(Clone, Default)]
pub(crate) struct Refunds {
    /// Tickets, rising, and what was given back.
    kept: Vec<(u64, u64)>,
    /// All that was ever given back, or since receipts were forgotten.
    total: u64,
}

impl Refunds {
    /// All that was given back so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Forgets everything, also how to refund older charges.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Where the charge of a ticket ends now.
    fn end(&self, ticket: u64) -> u64 {
        let after = self.kept.iter().rev();
        let after: u64 = after
            .take_while(|(other, _)| *other > ticket)
            .map(|(_, units)| units)
            .sum();
        (ticket + after).saturating_sub(self.total)
    }

    /// Gives back up to `units` of the charge with this ticket, and returns how much that is: what
    /// has not been paid off at `now`.
    pub(crate) fn give(&mut self, ticket: u64, units: u64, now: u64) -> u64 {
        let given = units.min(self.end(ticket).saturating_sub(now));
        if given == 0 {
            return 0;
        }
        self.forget_paid(now);
        if self.kept.len() == CAPACITY {
            let (_, units) = self.kept.remove(1);
            self.kept[0].1 += units;
        }
        let at = self.kept.partition_point(|(other, _)| *other < ticket);
        self.kept.insert(at, (ticket, given));
        self.total += given;
        given
    }

    /// Forgets those of charges that are paid off, which are the first ones.
    fn forget_paid(&mut self, now: u64) {
        let mut after: u64 = self.kept.iter().map(|(_, units)| units).sum();
        let paid = self.kept.iter().take_while(|(ticket, units)| {
            after -= units;
            (ticket + after).saturating_sub(self.total) <= now
        });
        let paid = paid.count();
        self.kept.drain(..paid);
    }
}
