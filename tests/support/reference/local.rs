//! Local handles of the reference: what each takes from the limiter in advance, on its public calls.

use super::{Answer, Charged, Reference};

/// A local handle: the rest of its last batch, and the charge of that batch.
pub(crate) struct Local {
    batch: u64,
    pub(crate) buffered: u64,
    charged: Option<Charged>,
    /// The number of next calls that ask for their own cost alone.
    alone: u64,
}

impl Local {
    pub(crate) fn new(batch: u64) -> Self {
        Self {
            batch,
            buffered: 0,
            charged: None,
            alone: 0,
        }
    }
}

/// The calls by a local handle.
impl Reference {
    /// Makes a call by a local handle: from its buffer, or from a batch that is charged in advance,
    /// or for the missing cost alone, as the next sixteen calls after a batch was refused. The
    /// limiter alone decides a call for nothing or for more than the limit. Returns `None` if the
    /// call is admitted without a charge of its own.
    pub(crate) fn take(&mut self, local: &mut Local, cost: u64) -> Option<Answer> {
        let used = local.buffered.min(cost);
        let used = if cost > self.limit() && used < cost {
            0
        } else {
            used
        };
        let (missing, batch) = (cost - used, local.batch.min(self.limit()));
        if cost > 0 && missing == 0 {
            local.buffered -= used;
            return None;
        }
        if local.alone > 0 {
            local.alone -= 1;
        } else if 0 < missing && missing < batch {
            if let Answer::Charged(charged) = self.try_acquire(batch) {
                local.buffered = charged.cost.saturating_sub(missing);
                local.charged = Some(charged);
                return None;
            }
            local.alone = 16;
        }
        let answer = self.try_acquire(missing);
        if let Answer::Charged(_) = answer {
            local.buffered -= used;
        }
        Some(answer)
    }

    /// Gives back the buffer of a local handle.
    pub(crate) fn return_unused(&mut self, local: &mut Local) {
        let unused = std::mem::take(&mut local.buffered);
        if let Some(charged) = local.charged.take().filter(|_| unused > 0) {
            self.refund(charged, unused);
        }
    }
}
