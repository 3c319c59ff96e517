//! The refunds of charges that later refunds depend on.
//!
//! Time pays charges off in the order in which they were made. The part of a charge that is not
//! paid off yet can be refunded without admitting a later call too early: the charges before it do
//! not change, and those after it begin earlier by the refund, all of them still in the future. The
//! part that has been paid off cannot be refunded: another call may have been admitted because of
//! it, or it was lost at the full burst.
//!
//! 1. The *ticket* of a charge is the sum of all charges until then, itself included, without a
//!    deduction for refunds. If a backlog decides, it is the end of the backlog plus all refunds:
//!    the idle time before it then counts as charged too, and all earlier charges are paid off by
//!    that time. So tickets rise with every charge.
//! 2. Between the end of a charge and the end of the newest are the later charges, less their
//!    refunds. The rest of the unpaid units belongs to the charge itself and to earlier charges.
//! 3. Refunds of charges that are paid off no longer count: every charge before such a charge is
//!    paid off too. Only the others are kept, at most [`CAPACITY`]. Beyond that, two are merged
//!    into one, as if both were of the earlier charge. That makes later refunds smaller, never
//!    larger.
//!
//! Charges and unpaid parts are in the units of the rule.

/// The number of refunds that are kept separately.
pub(super) const CAPACITY: usize = 1024;

/// The refunds of charges that are not paid off.
#[derive(Default)]
pub(super) struct Refunds {
    /// Tickets, rising, and the refund of each.
    kept: Vec<(u64, u64)>,
    /// The sum of all refunds, or of those since receipts were forgotten.
    pub(super) total: u64,
}

impl Refunds {
    /// Returns the charges after the charge of a ticket, less their refunds. The newest charge has
    /// the ticket `newest`.
    pub(super) fn newer(&self, newest: u64, ticket: u64) -> u64 {
        let later = self.kept.iter().rev();
        let later = later.take_while(|(other, _)| *other > ticket);
        newer(newest, ticket, later.map(|(_, units)| units).sum())
    }

    /// Refunds up to `units` of the charge with this ticket, and returns the refund: the part that
    /// has not been paid off, if `unpaid` is left of all charges.
    pub(super) fn give(&mut self, newest: u64, ticket: u64, units: u64, unpaid: u64) -> u64 {
        let given = refundable(units, unpaid, self.newer(newest, ticket));
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
            newer(newest, *ticket, later) >= unpaid
        });
        let paid = paid.count();
        self.kept.drain(..paid);
    }
}

/// Returns the charges after the charge of a ticket, less their refunds, if so much of them was refunded.
pub(super) const fn newer(newest: u64, ticket: u64, refunded: u64) -> u64 {
    newest.saturating_sub(ticket).saturating_sub(refunded)
}

/// Returns the part of a charge of `units` that is not paid off, if `unpaid` is left of all charges and `newer`
/// of those after it.
pub(super) const fn refundable(units: u64, unpaid: u64, newer: u64) -> u64 {
    let rest = unpaid.saturating_sub(newer);
    if units < rest { units } else { rest }
}
