//! The state that the handles of a semaphore share, and the use of the [queue](crate::queue) by a
//! semaphore.
//!
//! 1. One call requests permits for the first waiters together, each with its ticket. The number of
//!    a ticket is its position among the waiters of all processes.
//! 2. A call without a reply is made once more: a second request with the same id gets the same
//!    lease. If that fails too, the possible grant is returned.
//! 3. The highest number that the server has given is sent with the next request, so that numbers do not fall after a
//!    failover to a server whose data and clock are behind.
//! 4. A rejected waiter leaves no ticket that waiters of other processes would wait for. Its ticket
//!    is returned as soon as the store answers, unless it has expired by then.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use redis::Cmd;
use tollgate::{AcquireError, ErrorKind};

use super::boot_instant::BootInstant;
use super::renewals::Renewals;
use super::{Held, Lease};
use crate::error::StoreError;
use crate::keys;
use crate::queue::{self, Limit, LimitCounters, Next, Wait, Waiter};
use crate::script::{LEASE, MOST, micros, numbers};

/// The options, which are set when a semaphore is created.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) ttl: Duration,
    /// `None` stands for the ttl.
    pub(super) grace: Option<Duration>,
    pub(super) poll: Duration,
    pub(super) max_waiters: usize,
}

/// A ticket expires after this multiple of the time between two polls.
const POLLS: u32 = 40;

/// The maximum number of permits of one lease: each is a member on the server.
const MOST_PERMITS: u64 = 4096;

/// The maximum number of waiters in one call.
const MOST_ASKED: usize = 256;

pub(super) struct Leases {
    pub(super) keys: keys::Semaphore,
    pub(super) options: Options,
    pub(super) renewals: Renewals,
    pub(super) counters: LimitCounters,
}

#[derive(Default)]
pub(super) struct LeaseState {
    pub(super) permits: usize,
    /// The tickets of waiters that have left.
    pub(super) leaving: Vec<Request>,
    /// When to call again for waiters with tickets.
    pub(super) again: Option<Instant>,
    /// The number of times that permits may have become free.
    pub(super) rooms: u64,
    /// The highest number of a lease or a ticket that the server has given.
    pub(super) highest: u64,
}

/// The request of a waiter: for a lease, and meanwhile for a ticket.
#[derive(Clone, Default)]
pub(super) struct Request {
    /// The id of the lease.
    pub(super) id: String,
    pub(super) n: u32,
    /// The number of the ticket, or 0 before there is one.
    pub(super) ticket: u64,
    /// The caller waits.
    pub(super) stays: bool,
}

pub(super) type Shared = queue::Shared<Leases>;
type State = queue::State<Leases>;

impl LeaseState {
    /// Returns the number of permits, at most the maximum that a script can count.
    pub(super) fn permits(&self) -> u64 {
        (self.permits as u64).min(MOST)
    }

    /// Permits may have become free: the driver calls at once for waiters with tickets.
    pub(super) fn on_room(&mut self) {
        self.again = None;
        self.rooms += 1;
    }

    /// Calls again at that time; or at once, if permits may have become free since the call was
    /// sent, perhaps after the script ran.
    fn ask_again(&mut self, again: Instant, rooms: u64) {
        self.again = (self.rooms == rooms).then_some(again);
    }
}

impl Limit for Leases {
    type Permit = Lease;
    type Brought = ();
    type Request = Request;
    type State = LeaseState;

    fn key(&self) -> &str {
        self.keys.leases()
    }

    fn free_permit() -> Lease {
        Lease::empty()
    }

    fn capacity(&self, state: &LeaseState) -> u64 {
        match state.permits() {
            // Permits may be added later.
            0 => MOST_PERMITS,
            permits => permits.min(MOST_PERMITS),
        }
    }

    fn join(&self, state: &State, caller: &Wait<Self>) -> Result<Request, AcquireError> {
        let has_ticket = |waiter: &Waiter<Request, Lease>| waiter.request.ticket > 0;
        if caller.tries && state.queue.iter().any(has_ticket) {
            return Err(AcquireError::new(ErrorKind::NoPermits));
        }
        if !caller.tries && state.queue.len() >= self.options.max_waiters {
            return Err(AcquireError::new(ErrorKind::QueueFull));
        }
        Ok(Request {
            id: id(),
            n: caller.cost as u32,
            ticket: 0,
            stays: !caller.tries,
        })
    }

    fn on_leave(state: &mut LeaseState, waiter: &Waiter<Request, Lease>) {
        if waiter.request.ticket > 0 {
            state.leaving.push(waiter.request.clone());
        }
    }

    fn next(shared: &Arc<Shared>, state: &mut State) -> Next {
        let State { queue, own, .. } = state;
        let this = Arc::clone(shared);
        if !own.leaving.is_empty() {
            let (tickets, ttl) = (std::mem::take(&mut own.leaving), shared.ticket_ttl());
            return Next::Run(Box::pin(async move {
                let _ = this.release_or_retry(tickets, ttl).await;
            }));
        }
        if queue.is_empty() {
            own.again = None;
            return Next::End;
        }
        let asked = queue.iter().take(MOST_ASKED);
        let asked: Vec<_> = asked.map(|waiter| waiter.request.clone()).collect();
        let is_early = |again: &Instant| Instant::now() < *again;
        match own.again.filter(is_early) {
            Some(again) if asked.iter().all(|one| one.ticket > 0) => Next::Sleep(again),
            _ => Next::Run(Box::pin(this.ask_for_waiters(asked))),
        }
    }
}

impl Shared {
    async fn ask_for_waiters(self: Arc<Self>, asked: Vec<Request>) {
        let rooms = self.state().own.rooms;
        let mut sent = BootInstant::now();
        let mut answer = self.breaker.guard(self.acquire(&asked)).await;
        let mut perhaps = answer.as_ref().is_err_and(|it| it.is_unanswered());
        if perhaps {
            sent = BootInstant::now();
            answer = self.breaker.guard(self.acquire(&asked)).await;
        }
        let (grace, places) = match answer {
            Ok(granted) => granted,
            Err(error) => {
                perhaps |= error.is_perhaps_charged() || error.is_half_done();
                return self.fail(asked, perhaps, error);
            }
        };
        let now = Instant::now();
        let leases = asked.iter().zip(&places).map(|(one, [fencing, _])| {
            (*fencing > 0).then(|| Lease::new(&self, one.clone(), *fencing, sent))
        });
        // Leases are created without the lock, because the first one spawns a task.
        let mut leases: Vec<_> = leases.collect();
        self.change(|state| {
            let State { queue, own, .. } = state;
            let given = places.iter().flatten().copied().max();
            own.highest = own.highest.max(given.unwrap_or_default());
            queue.answer(|index, waiter| {
                // The call did not include the waiters behind these.
                let lease = leases.get_mut(index)?;
                waiter.request.ticket = places[index][1];
                if let Some(lease) = lease.take() {
                    return Some(Ok(lease));
                }
                let error = if waiter.tries {
                    AcquireError::new(ErrorKind::NoPermits)
                } else if waiter.deadline.is_some_and(|until| until < now + grace) {
                    AcquireError::would_take(grace)
                } else {
                    return None;
                };
                Leases::on_leave(own, waiter);
                Some(Err(error))
            });
            // With jitter, so that the processes of a fleet do not all poll at once.
            let poll = self.limit.options.poll.mul_f64(1.0 + fastrand::f64());
            own.ask_again(now + poll, rooms);
        });
    }

    /// Rejects the waiters of the call, and returns their data on the server: tickets, and leases
    /// that this call may have granted.
    fn fail(self: &Arc<Self>, mut asked: Vec<Request>, perhaps: bool, error: StoreError) {
        let (count, mut ttl) = (asked.len(), self.ticket_ttl());
        if perhaps {
            ttl = ttl.max(self.limit.options.ttl);
        } else {
            asked.retain(|one| one.ticket > 0);
        }
        self.release_later(asked, ttl);
        self.change(|state| state.queue.fail(count, &error.into()));
    }

    /// Permits may have become free: calls again for the waiters.
    pub(super) fn on_room(&self) {
        self.state().own.on_room();
        self.notify();
    }

    /// Returns how long a ticket lasts on the server after its last request.
    pub(super) fn ticket_ttl(&self) -> Duration {
        self.limit.options.poll * POLLS
    }

    /// Returns the pause between two attempts after a failure.
    pub(super) fn pause(&self) -> Duration {
        let most = (self.limit.options.ttl / 10).min(Duration::from_millis(100));
        most.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

/// Returns an id that no other lease has: a random number of this process, and a counter.
fn id() -> String {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:016x}{next:x}", *PROCESS)
}

// The calls that a semaphore makes to the server.

/// The number of attempts of a call that the server refuses because it is late. The first reply
/// tells the server's time; the others are for a clock that changes meanwhile, or a process that is
/// paused.
const ATTEMPTS: usize = 3;

impl Shared {
    async fn ask(&self, what: &str, rest: impl Fn(&mut Cmd)) -> Result<Vec<u64>, StoreError> {
        self.ask_by(what, Instant::now(), u64::MAX, rest).await
    }

    /// Like [`ask`](Self::ask), for an operation that the server refuses if it is executed after the
    /// deadline of the store: no caller would know about a lease or a ticket that it creates then.
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

    /// Calls the script at `sent`. The server executes it only until the microsecond `last` of its
    /// clock.
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
        let highest = self.state().own.highest;
        let rest = |command: &mut Cmd| {
            command.arg(highest);
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
            _ => Err(StoreError::Unknown),
        }
    }

    /// Returns for each lease whether it is still held.
    pub(super) async fn renew(&self, leases: &[&Held]) -> Result<Vec<bool>, StoreError> {
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
        match self.ask_in_time("renew", members).await?[..] {
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
        match &self.ask_in_time("assert", each).await?[..] {
            [_, verdicts @ ..] if verdicts.len() == leases.len() => {
                Ok(verdicts.iter().map(|verdict| *verdict > 0).collect())
            }
            _ => Err(StoreError::Unknown),
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
            while let Err(error) = this.breaker.guard(this.release(&all)).await {
                let now = Instant::now();
                if error.is_mistake() || now >= expiry {
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
            _ => Err(StoreError::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ask_again_after_room_came_while_the_server_was_asked_is_at_once() {
        let again = Instant::now();
        let mut state = LeaseState::default();
        let rooms = state.rooms;
        state.on_room();
        state.ask_again(again, rooms);
        assert_eq!(state.again, None);
        state.ask_again(again, state.rooms);
        assert_eq!(state.again, Some(again));
    }
}
