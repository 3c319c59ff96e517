//! The calls that a semaphore makes to the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Cmd;

use super::state::{Request, Shared};
use crate::error::StoreError;
use crate::script::{LEASE, micros, numbers};

/// How often a call is made that the server refuses because it is late. The first reply tells the
/// server's time; the others are for a clock that changes meanwhile, or a process that is paused.
const ATTEMPTS: usize = 3;

impl Shared {
    async fn ask(&self, what: &str, rest: impl Fn(&mut Cmd)) -> Result<Vec<u64>, StoreError> {
        self.ask_by(what, Instant::now(), u64::MAX, rest).await
    }

    /// Like [`ask`](Self::ask), for an operation that the server refuses if it is executed after the
    /// deadline of the store: nobody would learn of a lease or a ticket that it makes then.
    async fn ask_in_time(
        &self,
        what: &str,
        rest: impl Fn(&mut Cmd),
    ) -> Result<Vec<u64>, StoreError> {
        for _ in 0..ATTEMPTS {
            let sent = Instant::now();
            let last = self.store.last_micros(self.limit.keys.leases(), sent);
            let reply = self.ask_by(what, sent, last, &rest).await?;
            if reply.len() > 1 {
                return Ok(reply);
            }
        }
        // No attempt was executed.
        Err(StoreError::Unavailable)
    }

    /// Calls the script at `sent`, to be executed in the microsecond `last` of the server's clock or
    /// before.
    async fn ask_by(
        &self,
        what: &str,
        sent: Instant,
        last: u64,
        rest: impl Fn(&mut Cmd),
    ) -> Result<Vec<u64>, StoreError> {
        let options = &self.limit.options;
        let grace = options.grace.unwrap_or(options.ttl);
        let times = [options.ttl, grace, self.ticket_ttl()].map(micros);
        let permits = self.state().own.permits();
        let call = self.store.call(&LEASE, &self.limit.keys.all(), |command| {
            command.arg(what).arg(permits).arg(&times).arg(last);
            rest(command);
        });
        let reply = numbers(&call.await?)?;
        if let Some(now) = reply.first() {
            self.store.learn_clock(self.limit.keys.leases(), *now, sent);
        }
        Ok(reply)
    }

    /// Returns the rest of the grace time after a loss of data; and for each request, the fencing
    /// number of the lease, or 0, and the number of the ticket, or 0.
    pub(super) async fn acquire(
        &self,
        asked: &[Request],
    ) -> Result<(Duration, Vec<[u64; 2]>), StoreError> {
        let rest = |command: &mut Cmd| {
            for one in asked {
                let numbers = [u64::from(one.n), one.ticket, u64::from(one.stays)];
                command.arg(&one.id).arg(&numbers);
            }
        };
        let reply = self.ask_in_time("acquire", rest).await?;
        match reply.as_slice() {
            [_, grace, _, places @ ..] if places.len() == 2 * asked.len() => {
                Ok((Duration::from_micros(*grace), places.as_chunks().0.to_vec()))
            }
            _ => Err(StoreError::Script),
        }
    }

    /// Returns whether the lease is still held.
    pub(super) async fn renew(&self, one: &Request, fencing: u64) -> Result<bool, StoreError> {
        let rest = |command: &mut Cmd| {
            command.arg(&one.id).arg(one.n).arg(fencing);
        };
        match self.ask_in_time("renew", rest).await?[..] {
            [_, verdict] => Ok(verdict > 0),
            _ => Err(StoreError::Script),
        }
    }

    /// Returns leases and tickets to the server.
    pub(super) async fn release(&self, all: &[Request]) -> Result<(), StoreError> {
        let rest = |command: &mut Cmd| {
            for one in all {
                command.arg(&one.id).arg(one.n);
            }
        };
        self.ask("release", rest).await?;
        self.on_room();
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
        let (this, expiry) = (Arc::clone(self), Instant::now() + ttl);
        self.store.runtime().spawn(async move {
            while let Err(error) = this.release(&all).await {
                let now = Instant::now();
                let is_hopeless = matches!(
                    error,
                    StoreError::NoRuntime | StoreError::WrongType | StoreError::Script
                );
                if is_hopeless || now >= expiry {
                    return;
                }
                tokio::time::sleep(this.pause().min(expiry - now)).await;
            }
        });
    }

    /// Returns the number of free permits.
    pub(super) async fn available(&self) -> Result<u64, StoreError> {
        match self.ask("look", |_| ()).await?[..] {
            [_, _, free, _, _] => Ok(free),
            _ => Err(StoreError::Script),
        }
    }
}
