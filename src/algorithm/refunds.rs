//! What was refunded of charges, as far as it matters for later refunds.
//!
//! Time pays charges off in the order in which they were made. The part of a charge that is not
//! paid off yet can be refunded without admitting a later call too early: the charges before it do
//! not change, and those after it begin that much earlier, all of them still in the future. What
//! has been paid off cannot be refunded: another call may have been admitted because of it, or it
//! was lost at the full burst.
//!
//! 1. The *ticket* of a charge is the [end](super::gcra::Tat) of the backlog just after it, plus all that
//!    had been refunded before. Tickets rise with every charge, whatever is refunded.
//! 2. A refund moves the charges after it forward. So a charge now ends at its ticket, less all
//!    that has been refunded, plus what was refunded of charges after it, because that did not move
//!    it.
//! 3. Refunds of charges that are paid off no longer count: every charge before such a charge is
//!    paid off too. Only the others are kept, at most [`CAPACITY`]. Beyond that, two are merged
//!    into one, as if both were of the earlier charge. That makes later refunds smaller, never
//!    larger.

/// How many refunds are kept apart.
const CAPACITY: usize = 1024;

/// The refunds of charges that are not paid off.
#[derive(Default)]
pub(super) struct Refunds {
    /// Tickets, rising, and what was refunded of each.
    kept: Vec<(u64, u64)>,
    /// All that was ever refunded, or since receipts were forgotten.
    pub(super) total: u64,
}

impl Refunds {
    /// Returns where the charge of a ticket ends now.
    fn end(&self, ticket: u64) -> u64 {
        let after = self.kept.iter().rev();
        let after: u64 = after
            .take_while(|(other, _)| *other > ticket)
            .map(|(_, units)| units)
            .sum();
        (ticket + after).saturating_sub(self.total)
    }

    /// Refunds up to `units` of the charge with this ticket, and returns how much that is: what has
    /// not been paid off at `now`.
    pub(super) fn give(&mut self, ticket: u64, units: u64, now: u64) -> u64 {
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

    /// Forgets the refunds of charges that are paid off, which are the first ones.
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
