//! The state that the handles of a semaphore share, and the use of the [queue](crate::queue) by a
//! semaphore.
//!
//! 1. The first waiters have tickets. The number of a ticket is its position among the waiters of all processes.
//!    A call requests permits for new waiters, for tickets that the server [told](crate::store) this process to
//!    claim, or, when the process [looks](super::looks), for the first ticket or for all. Only its answer grants a
//!    lease: a message is a hint.
//! 2. A call without a reply is made once more: a second request with the same id gets the same
//!    lease. If that fails too, waiters keep their places and their tickets, and the process looks after a pause.
//! 3. The highest number that the server has given to the [group](super::group) is sent with the next request, so that numbers do not fall
//!    after a failover to a server whose data and clock are behind.
//! 4. A waiter that leaves, leaves no ticket that waiters of other processes would wait for. All that the server
//!    may have of it is returned as soon as the store answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate::{AcquireError, ErrorKind};

use super::Lease;
use super::boot_instant::BootInstant;
use super::group::Group;
use super::looks::{Asked, Looks};
use super::renewals::Renewals;
use crate::error::StoreError;
use crate::keys;
use crate::queue::{self, Limit, Next, Running, Wait, Waiter};
use crate::script::MOST;
use crate::store::{Listener, Listening};
use crate::unique::unique;

/// For how long the return of a ticket is tried: the server keeps it for a minute after the last request of any
/// process.
const TICKET: Duration = Duration::from_secs(60);

/// The maximum number of permits of one lease: each is a member on the server.
const MOST_PERMITS: u64 = 4096;

/// The maximum number of tickets that a process has in a line. Later waiters stand behind them in the process.
const MOST_TICKETS: usize = 64;

pub(super) struct Leases {
    pub(super) keys: Arc<keys::Semaphore>,
    /// The name of this process in the line of the semaphore, with which the ids of its leases begin.
    pub(super) process: String,
    pub(super) group: Arc<Group>,
    /// Of all leases of the group.
    pub(super) renewals: Arc<Renewals>,
}

#[derive(Default)]
pub(super) struct LeaseState {
    pub(super) permits: usize,
    /// Those of waiters that have left.
    pub(super) leaving: Vec<Request>,
    pub(super) looks: Looks,
    /// Receives the messages about the tickets.
    pub(super) listening: Option<Listening>,
    /// After a failure nothing is sent before this time.
    pub(super) pause: Option<Instant>,
    /// Counts this semaphore in the group while somebody waits.
    pub(super) waited: Option<Arc<()>>,
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
    /// The server may have a ticket or a lease of it.
    pub(super) is_known: bool,
    /// The server said that the ticket fits.
    pub(super) is_told: bool,
}

pub(super) type Shared = queue::Shared<Leases>;
type State = queue::State<Leases>;

impl LeaseState {
    /// Returns the number of permits, at most the maximum that a script can count.
    pub(super) fn permits(&self) -> u64 {
        (self.permits as u64).min(MOST)
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
        // The first waiter has the oldest ticket.
        let first = state.queue.front();
        if caller.tries && first.is_some_and(|waiter| waiter.request.ticket > 0) {
            return Err(AcquireError::new(ErrorKind::NoPermits));
        }
        if !caller.tries && state.queue.len() >= self.group.options.max_waiters {
            return Err(AcquireError::new(ErrorKind::QueueFull));
        }
        Ok(Request {
            id: self.next_id(),
            n: caller.cost as u32,
            stays: !caller.tries,
            ..Request::default()
        })
    }

    fn on_leave(state: &mut LeaseState, waiter: &Waiter<Request, Lease>) {
        if waiter.request.is_known {
            state.leaving.push(waiter.request.clone());
        }
    }

    fn run(shared: &Arc<Shared>, driver: Running) {
        shared.limit.group.drivers.add(driver);
    }

    fn next(shared: &Arc<Shared>, state: &mut State) -> Next {
        let State { queue, own, .. } = state;
        let this = Arc::clone(shared);
        if !own.leaving.is_empty() {
            let leaving = std::mem::take(&mut own.leaving);
            let ttl = TICKET.max(shared.limit.group.options.ttl);
            return Next::Run(Box::pin(async move {
                let _ = this.release_or_retry(leaving, ttl).await;
            }));
        }
        let now = shared.now();
        if queue.is_empty() {
            own.looks.look_now();
            own.waited = None;
            return Next::End;
        }
        let waited = || Arc::clone(&shared.limit.group.waited);
        own.waited.get_or_insert_with(waited);
        if let Some(until) = own.pause.filter(|until| now < *until) {
            return Next::Sleep(until);
        }
        own.listening.get_or_insert_with(|| shared.listen());
        let is_look = own.looks.is_due(now);
        let names_all = is_look && own.looks.names_all(now, this.store.channel().is_some());
        let mut requests = Vec::new();
        for (index, waiter) in queue.first(MOST_TICKETS).enumerate() {
            let one = &mut waiter.request;
            if names_all || (is_look && index == 0) || one.ticket == 0 || one.is_told {
                requests.push((index, one.clone()));
                // A message that comes from now on may be about a later state than the answer.
                (one.is_told, one.is_known) = (false, true);
            }
        }
        match own.looks.next() {
            Some(next) if requests.is_empty() => Next::Sleep(next),
            _ => {
                let asked = own.looks.begin(now, is_look, names_all);
                Next::Run(Box::pin(this.ask_for_waiters(requests, asked)))
            }
        }
    }
}

impl Leases {
    /// Returns an id that no other lease has.
    fn next_id(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{}.{next:x}", self.process)
    }
}

impl Shared {
    /// Requests leases for some of the first waiters, each with its index.
    async fn ask_for_waiters(self: Arc<Self>, requests: Vec<(usize, Request)>, asked: Asked) {
        let mut sent = BootInstant::by(self.store.time());
        let mut answer = self.breaker.guard(self.acquire(&requests)).await;
        let is_unanswered = answer.as_ref().is_err_and(|it| it.is_unanswered());
        if is_unanswered {
            sent = BootInstant::by(self.store.time());
            answer = self.breaker.guard(self.acquire(&requests)).await;
        }
        let (line, places) = match answer {
            Ok(answer) => answer,
            Err(error) => return self.failed(requests, is_unanswered, error),
        };
        let now = self.now();
        let mut highest = 0;
        let mut answers = Vec::new();
        // Leases are created without the lock, because the first one spawns a task.
        for ((index, request), [fencing, ticket]) in requests.into_iter().zip(places) {
            highest = highest.max(fencing).max(ticket);
            let lease = (fencing > 0).then(|| Lease::new(&self, request, fencing, sent));
            answers.push((index, ticket, lease));
        }
        let group = &self.limit.group;
        group.has_seen(highest);
        let waits = self.change(|state| {
            let State { queue, own, .. } = state;
            own.pause = None;
            let (look, poll) = (group.look_interval(line.ahead), group.poll_interval());
            own.looks.answered(asked, now, &line, look, poll);
            group.set_round_trip(own.looks.round_trip());
            let mut answers = answers.into_iter().peekable();
            queue.answer_first(MOST_TICKETS, |index, waiter| {
                let (_, ticket, lease) = answers.next_if(|answer| answer.0 == index)?;
                (waiter.request.ticket, waiter.request.is_known) = (ticket, ticket > 0);
                if let Some(lease) = lease {
                    return Some(Ok(lease));
                }
                let error = if waiter.tries {
                    AcquireError::new(ErrorKind::NoPermits)
                } else if waiter
                    .deadline
                    .is_some_and(|until| until < now + line.grace)
                {
                    AcquireError::would_take(line.grace)
                } else {
                    return None;
                };
                Leases::on_leave(own, waiter);
                Some(Err(error))
            });
            let waits = queue.front().is_some_and(|first| first.request.ticket > 0);
            if waits {
                // They joined before the first waiter had its ticket, and perhaps behind those that are visited.
                queue.answer_tries(|_| Err(AcquireError::new(ErrorKind::NoPermits)));
            }
            waits
        });
        if waits && self.store.channel().is_none() {
            self.store.subscribe();
        }
    }

    /// Waiters wait an outage out. Those that do not wait get the error, and all get a mistake.
    fn failed(
        self: &Arc<Self>,
        requests: Vec<(usize, Request)>,
        is_unanswered: bool,
        error: StoreError,
    ) {
        let again = self.now() + self.limit.group.pause();
        let perhaps = is_unanswered || error.is_perhaps_charged() || error.is_half_done();
        let mut leave = Vec::new();
        self.change(|state| {
            let State { queue, own, .. } = state;
            own.pause = Some(again);
            own.looks.failed(again);
            let mut requests = requests.into_iter().peekable();
            queue.answer_first(MOST_TICKETS, |index, waiter| {
                let (_, request) = requests.next_if(|request| request.0 == index)?;
                waiter.request.is_known = request.is_known || perhaps;
                if !waiter.tries && !error.is_mistake() {
                    return None;
                }
                if waiter.request.is_known {
                    leave.push(request);
                }
                Some(Err(error.into()))
            });
            // Nothing was sent for the others.
            queue.answer_tries(|_| Err(error.into()));
        });
        self.release_later(leave, TICKET.max(self.limit.group.options.ttl));
    }

    /// Receives the messages of the server about the tickets of this process.
    fn listen(self: &Arc<Self>) -> Listening {
        let this = Arc::downgrade(self);
        let listener: Listener = Arc::new(move |message| {
            if let Some(this) = this.upgrade() {
                this.heard(message);
            }
        });
        self.store.listen(&self.limit.process, listener)
    }

    /// Handles a message, or the chance that some were lost.
    fn heard(&self, message: Option<&str>) {
        let state = &mut *self.state();
        let own = &mut state.own;
        let Some((what, rest)) = message.and_then(|message| message.split_once(' ')) else {
            own.looks.heard();
            own.looks.look_now();
            return self.notify();
        };
        own.looks.heard();
        match what {
            "claim" => {
                let mut first = state.queue.first(MOST_TICKETS);
                let is_it = |one: &Request| {
                    rest.strip_prefix(&one.id)
                        .is_some_and(|n| n.starts_with(':'))
                };
                if let Some(waiter) = first.find(|waiter| is_it(&waiter.request)) {
                    waiter.request.is_told = true;
                    // Those before it have left, so it is nobody's successor. A message about a waiter that has left says
                    // nothing about the others.
                    own.looks.set_soon(None);
                }
            }
            "soon" => {
                let soon = rest.parse().ok().map(Duration::from_micros);
                own.looks.set_soon(soon.map(|soon| self.now() + soon));
            }
            _ => {}
        }
        self.notify();
    }

    /// The number of permits has changed, or permits may have become free: looks at once.
    pub(super) fn look_now(&self) {
        self.state().own.looks.look_now();
        self.notify();
    }
}

/// Returns the name of a process in a line: a [unique] number.
pub(super) fn process() -> String {
    format!("{:016x}", unique())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::lease::Semaphore;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn heard_of_a_waiter_that_has_left_keeps_the_earlier_look() {
        let semaphore = Semaphore::new(&Store::in_memory(), "jobs", 1);
        let shared = semaphore.shared();
        let now = shared.now();
        let next = || shared.state().own.looks.next();
        shared.state().own.looks.failed(now + 2 * SECOND);
        shared.state().own.looks.set_soon(Some(now + SECOND));
        shared.heard(Some("claim left.1:1"));
        assert_eq!(next(), Some(now + SECOND));
    }
}
