//! The calls that a semaphore makes to the server.
//!
//! 1. A call that creates a lease or a ticket is refused by the server if it comes after its deadline.
//! 2. What was not returned is returned in the background.

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;

use super::Held;
use super::batches::Part;
use super::looks::Line;
use super::state::{Request, Shared};
use crate::error::StoreError;
use crate::script::micros;

/// The number of attempts of a call that the server refuses because it is late. The first reply
/// tells the server's time; the others are for a clock that changes meanwhile, or a process that is
/// paused.
const ATTEMPTS: usize = 3;

impl Shared {
    /// Calls the script about so many permits or tickets. `rest` adds the arguments of the operation.
    async fn ask(
        self: &Arc<Self>,
        what: &'static str,
        items: usize,
        rest: impl FnOnce(&mut Cmd),
    ) -> Result<Vec<u64>, StoreError> {
        let part = self.part(what, items, rest);
        self.limit.group.batches.call(part).await
    }

    /// Like [`ask`](Self::ask), for an operation that the server refuses if it is executed after the
    /// deadline of the store: no caller would know about a lease or a ticket that it creates then.
    async fn ask_in_time(
        self: &Arc<Self>,
        what: &'static str,
        items: usize,
        rest: impl Fn(&mut Cmd),
    ) -> Result<Vec<u64>, StoreError> {
        for _ in 0..ATTEMPTS {
            let part = self.part(what, items, &rest).in_time();
            let reply = self.limit.group.batches.call(part).await?;
            if reply.len() > 1 {
                return Ok(reply);
            }
        }
        // No attempt was executed.
        Err(StoreError::Unavailable)
    }

    fn part(
        self: &Arc<Self>,
        what: &'static str,
        items: usize,
        rest: impl FnOnce(&mut Cmd),
    ) -> Part {
        let group = &self.limit.group;
        let options = &group.options;
        let grace = options.grace();
        let channel = self.channel().is_some();
        let (permits, patience) = {
            let own = &self.state().own;
            let patience = own
                .looks
                .patience(channel, group.poll_interval(), group.paced_poll());
            (own.permits(), patience)
        };
        let times = [options.ttl, grace, patience, group.state_lasts()];
        let [ttl, grace, patience, lasts] = times.map(micros);
        let numbers = [permits, ttl, grace, patience, lasts];
        Part::new(&self.limit.keys, what, numbers, items, rest)
    }

    /// Returns the channel in which this process is told, unless messages are taken not to arrive: a server that
    /// reaches nobody there removes the tickets.
    fn channel(&self) -> Option<&str> {
        let is_deaf = self.state().own.looks.is_deaf(self.now());
        self.store.channel().filter(|_| !is_deaf)
    }

    /// Returns the state of the line; and for each request, the fencing number of the lease, or 0, and the
    /// number of the ticket, or 0.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        asked: &[(usize, Request)],
    ) -> Result<(Line, Vec<[u64; 2]>), StoreError> {
        let highest = self.limit.group.highest();
        let channel = self.channel();
        let rest = |command: &mut Cmd| {
            command.arg(highest).arg(channel.unwrap_or_default());
            for (_, one) in asked {
                let numbers = [u64::from(one.n), one.ticket, u64::from(one.stays)];
                command.arg(&one.id).arg(&numbers);
            }
        };
        let reply = self.ask_in_time("acquire", asked.len(), rest).await?;
        match reply.as_slice() {
            [_, grace, soonest, first_version, back, ahead, places @ ..]
                if places.len() == 2 * asked.len() =>
            {
                let line = Line {
                    grace: Duration::from_micros(*grace),
                    soonest: (*soonest > 0).then(|| Duration::from_micros(*soonest)),
                    has_first_version: *first_version > 0,
                    was_missing: *back > 0,
                    ahead: *ahead,
                    // A connection that was replaced meanwhile is not subscribed.
                    has_channel: channel.is_some() && self.store.channel().is_some(),
                };
                Ok((line, places.as_chunks().0.to_vec()))
            }
            _ => Err(StoreError::Unknown),
        }
    }

    /// Returns for each lease whether it is still held.
    pub(super) async fn renew(
        self: &Arc<Self>,
        leases: &[Arc<Held>],
    ) -> Result<Vec<bool>, StoreError> {
        let items = leases.iter().map(|held| held.request.n as usize).sum();
        let members = |command: &mut Cmd| {
            command.arg(leases.iter().map(|held| held.fencing).max());
            for held in leases {
                let id = &held.request.id;
                command.arg(id);
                for index in 1..held.request.n {
                    command.arg(format!("{id}:{index}"));
                }
            }
        };
        match self.ask_in_time("renew", items, members).await?[..] {
            [_, 1] => return Ok(vec![true; leases.len()]),
            [_, 0] => {}
            _ => return Err(StoreError::Unknown),
        }
        let each = |command: &mut Cmd| {
            for held in leases {
                let numbers = [u64::from(held.request.n), held.fencing];
                command.arg(&held.request.id).arg(&numbers);
            }
        };
        match &self.ask_in_time("assert", items, each).await?[..] {
            [_, verdicts @ ..] if verdicts.len() == leases.len() => {
                Ok(verdicts.iter().map(|verdict| *verdict > 0).collect())
            }
            _ => Err(StoreError::Unknown),
        }
    }

    /// Returns leases and tickets to the server.
    pub(super) async fn release(self: &Arc<Self>, all: &[Request]) -> Result<(), StoreError> {
        let rest = |command: &mut Cmd| {
            for one in all {
                command.arg(&one.id).arg(one.n);
            }
        };
        let items = all.iter().map(|one| one.n as usize).sum();
        self.ask("release", items, rest).await?;
        // The server tells those who come next, unless nobody listens.
        let has_channel = self.channel().is_some();
        let state = &mut *self.state();
        if !state.queue.is_empty() && state.own.looks.polls(has_channel) {
            state.own.looks.look_now();
            self.notify();
        }
        Ok(())
    }

    /// Returns leases and tickets that expire after `ttl`. A failure is retried in the background.
    pub(super) async fn release_or_retry(
        self: &Arc<Self>,
        all: Vec<Request>,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let released = self.release(&all).await;
        if released.is_err() {
            self.release_later(all, ttl);
        }
        released
    }

    /// Returns leases and tickets that expire after `ttl`, in the background. Failures are retried
    /// until they expire, unless the failure is permanent.
    pub(super) fn release_later(self: &Arc<Self>, all: Vec<Request>, ttl: Duration) {
        if all.is_empty() {
            return;
        }
        let (this, expiry) = (Arc::clone(self), self.now() + ttl);
        let counted = Arc::clone(&self.limit.group.releasing);
        let releasing = async move {
            let _counted = counted;
            while let Err(error) = this.breaker.guard(this.release(&all)).await {
                let now = this.now();
                if error.is_mistake() || now >= expiry {
                    return;
                }
                let pause = this.limit.group.pause();
                this.store.time().sleep(pause.min(expiry - now)).await;
            }
        };
        self.limit.group.drivers.add(Box::pin(releasing));
    }

    /// Returns the number of free permits.
    pub(super) async fn available(self: &Arc<Self>) -> Result<u64, StoreError> {
        match self.ask("look", 0, |_| ()).await?[..] {
            [_, _, free] => Ok(free),
            _ => Err(StoreError::Unknown),
        }
    }
}
