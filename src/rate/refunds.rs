//! What was given back, as far as it matters for what may be given back later.
//!
//! Time pays charges off in the order in which they were made. What it has not paid off yet of a
//! charge can be given back without admitting anybody too early: the charges before it are not
//! touched, and those after it begin that much earlier, all of them still in the future. What has
//! been paid off is over: somebody else may have been admitted on the strength of it, or it was
//! lost at the full burst.
//!
//! 1. The *ticket* of a charge is the end of the debt just after it, plus all that had been
//!    refunded before. Tickets rise with every charge, whatever is refunded.
//! 2. A refund moves the charges after it forward. So a charge ends now at its ticket, less all
//!    that has been refunded, plus what was refunded of charges after it, which did not move it.
//! 3. Refunds of charges that are paid off do not count for anybody: every charge before such a one
//!    is paid off too. Only the others are kept, at most [`MOST`]. Beyond that two are taken for
//!    one, as if both were of the earlier charge; that makes later refunds smaller, never larger.

/// How many refunds are told apart.
const MOST: usize = 1024;

/// The refunds of charges that are not paid off.
#[derive(Default)]
pub(super) struct Refunds {
    /// Tickets, rising, and what was refunded.
    kept: Vec<(u64, u64)>,
}

impl Refunds {
    /// Forgets everything, also how to refund older charges.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    /// Where the charge of a ticket ends now, if `total` was refunded so far.
    pub(super) fn end(&self, ticket: u64, total: u64) -> u64 {
        let after = self.kept.iter().rev();
        let after: u64 = after
            .take_while(|(other, _)| *other > ticket)
            .map(|(_, units)| units)
            .sum();
        (ticket + after).saturating_sub(total)
    }

    /// Gives back up to `units` of the charge with this ticket, and says how much that is: what has
    /// not been paid off at `now`. `total` was refunded before.
    pub(super) fn give(&mut self, ticket: u64, units: u64, now: u64, total: u64) -> u64 {
        let end = self.end(ticket, total);
        let given = units.min(end.saturating_sub(now));
        if given == 0 {
            return 0;
        }
        self.forget_paid(now, total);
        if self.kept.len() == MOST {
            let (_, units) = self.kept.remove(1);
            self.kept[0].1 += units;
        }
        let at = self.kept.partition_point(|(other, _)| *other < ticket);
        self.kept.insert(at, (ticket, given));
        given
    }

    /// Forgets those of charges that are paid off, which are the first ones.
    fn forget_paid(&mut self, now: u64, total: u64) {
        let mut after: u64 = self.kept.iter().map(|(_, units)| units).sum();
        let paid = self.kept.iter().take_while(|(ticket, units)| {
            after -= units;
            (ticket + after).saturating_sub(total) <= now
        });
        let paid = paid.count();
        self.kept.drain(..paid);
    }
}
