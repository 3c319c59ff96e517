//! [`Parts`]: the limits of a set, the calls about all of them, and the replies.

use std::iter::repeat_n;

use redis::{ToRedisArgs, Value};
use tollgate::{Algorithm, Quota};

use super::outcome::{Charges, Outcome};
use crate::error::StoreError;
use crate::queue::Origin;
use crate::rate::{Reply, Rule};
use crate::script::LIMIT_SET;
use crate::store::{Call, Store};

#[derive(Clone)]
pub(super) struct Part {
    pub(super) key: String,
    pub(super) rule: Rule,
    pub(super) quota: Quota,
    pub(super) algorithm: Algorithm,
}

#[derive(Clone)]
pub(crate) struct Parts {
    pub(super) store: Store,
    pub(super) each: Vec<Part>,
}

impl Parts {
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            each: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, key: String, rule: Rule, quota: Quota, algorithm: Algorithm) {
        self.each.push(Part {
            key,
            rule,
            quota,
            algorithm,
        });
    }

    /// Calls the script with an operation, and these arguments for each limit.
    pub(crate) fn call(
        &self,
        what: &str,
        arguments: impl IntoIterator<Item = impl ToRedisArgs>,
    ) -> Call {
        let keys: Vec<&str> = self.each.iter().map(|part| part.key.as_str()).collect();
        self.store.call(&LIMIT_SET, &keys, |command| {
            command.arg(what);
            for (Part { rule, .. }, arguments) in self.each.iter().zip(arguments) {
                command
                    .arg(rule.name())
                    .arg(&rule.numbers())
                    .arg(&arguments);
            }
        })
    }

    /// Calls the script with an operation, and the same argument for each limit.
    pub(super) fn call_each(&self, what: &str, n: u64) -> Call {
        self.call(what, repeat_n(n, self.each.len()))
    }

    pub(super) fn replies(&self, value: &Value) -> Result<Vec<Reply>, StoreError> {
        let replies = Reply::read_each(value)?;
        if replies.len() != self.each.len() {
            return Err(StoreError::Unknown);
        }
        Ok(replies)
    }

    /// Decodes the reply to a call of cost `n`.
    pub(crate) fn outcome(&self, n: u64, value: &Value) -> Result<Outcome, StoreError> {
        let replies = self.replies(value)?;
        let decisions = self.each.iter().zip(&replies);
        let decisions = decisions.map(|(Part { rule, .. }, reply)| {
            let mut decision = reply.decision(rule.burst);
            if n > rule.burst {
                decision.retry_after = None;
            }
            decision
        });
        let is_charged = replies.iter().all(|reply| reply.done == 1);
        Ok(Outcome {
            decisions: decisions.collect(),
            charges: is_charged.then(|| self.charges(n, &replies, |_| 0)),
        })
    }

    /// Returns the charges of a call of cost `n`, which was followed by charges of `after` of each limit.
    pub(super) fn charges(
        &self,
        n: u64,
        replies: &[Reply],
        after: impl Fn(usize) -> u64,
    ) -> Charges {
        let each = self.each.iter().zip(replies).enumerate();
        let tickets = each.map(|(index, (Part { rule, .. }, reply))| {
            let position = rule.position(reply.position, after(index));
            [position, reply.made, reply.now]
        });
        Charges {
            cost: n,
            work: self.each.iter().map(|part| part.rule.work(n)).sum(),
            tickets: tickets.collect(),
            local: Vec::new(),
            origin: Origin::Alone,
        }
    }
}
