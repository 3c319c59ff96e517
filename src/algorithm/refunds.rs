//! What was refunded of charges, as far as it matters for later refunds.
//!
//! Time pays charges off in the order in which they were made. The part of a charge that is not
//! paid off yet can be refunded without admitting a later call too early: the charges before it do
//! not change, and those after it begin that much earlier, all of them still in the future. What
//! has been paid off cannot be refunded: another call may have been admitted because of it, or it
//! was lost at the full burst.
//!
//! 1. The *ticket* of a charge is all that was charged until then, itself included, whatever was
//!    refunded. Where a backlog decides, it is the end of the backlog and all refunds: then the idle
//!    time before it counts as charged, too, which all that was charged earlier is paid off by. So
//!    tickets rise with every charge.
//! 2. Between the end of a charge and the end of the newest is what was charged after it, less what was
//!    refunded of that. The rest of what is unpaid is the charge, and what is before it.
//! 3. Refunds of charges that are paid off no longer count: every charge before such a charge is
//!    paid off too. Only the others are kept, at most [`CAPACITY`]. Beyond that, two are merged
//!    into one, as if both were of the earlier charge. That makes later refunds smaller, never
//!    larger.
//!
//! Charges, and what is unpaid, are in the units of the rule.

/// How many refunds are kept apart.
pub(super) const CAPACITY: usize = 1024;

/// The refunds of charges that are not paid off.
#[derive(Default)]
pub(super) struct Refunds {
    /// Tickets, rising, and what was refunded of each.
    kept: Vec<(u64, u64)>,
    /// All that was ever refunded, or since receipts were forgotten.
    pub(super) total: u64,
}

impl Refunds {
    /// Returns what was charged after the charge of a ticket, and not refunded. The newest charge has the
    /// ticket `newest`.
    pub(super) fn newer(&self, newest: u64, ticket: u64) -> u64 {
        let later = self.kept.iter().rev();
        let later = later.take_while(|(other, _)| *other > ticket);
        let refunded: u64 = later.map(|(_, units)| units).sum();
        newest.saturating_sub(ticket).saturating_sub(refunded)
    }

    /// Refunds up to `units` of the charge with this ticket, and returns how much that is: what has
    /// not been paid off, if `unpaid` is left of all charges.
    pub(super) fn give(&mut self, newest: u64, ticket: u64, units: u64, unpaid: u64) -> u64 {
        let given = units.min(unpaid.saturating_sub(self.newer(newest, ticket)));
        if given == 0 {
            return 0;
        }
        self.forget_paid(newest, unpaid);
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
    fn forget_paid(&mut self, newest: u64, unpaid: u64) {
        let mut later: u64 = self.kept.iter().map(|(_, units)| units).sum();
        let paid = self.kept.iter().take_while(|(ticket, units)| {
            later -= units;
            newest.saturating_sub(*ticket).saturating_sub(later) >= unpaid
        });
        let paid = paid.count();
        self.kept.drain(..paid);
    }
}
