//! [`Renewals`]: renews the leases of a semaphore, many in one call.
//!
//! 1. One task of the store's runtime renews all leases of a semaphore. It ends when there are none.
//! 2. A lease is due when about a third of its ttl has passed, at a random time, so that the processes of a
//!    fleet do not all renew at once. A call renews also those that are due soon after; together at most
//!    [`MOST_MEMBERS`] permits, which take the server less than a millisecond, so that nobody else waits.
//! 3. A call holds the lock `renewing` of its leases, and a release waits for it. So no renewal comes after the
//!    release.
//! 4. A lease is lost when its time is over, also during a call; when the server does not have it any more; and
//!    when the task is dropped with its runtime.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::task::JoinSet;

use super::state::Shared;
use super::{Held, held_for};
use crate::sync::{Mutex, lock};

/// The maximum number of permits in one call, unless a single lease has more.
const MOST_MEMBERS: u32 = 256;

/// The maximum number of calls at once: enough for a server far away, and less than a deadline of its work.
const MOST_CALLS: usize = 8;

#[derive(Default)]
pub(super) struct Renewals {
    state: Mutex<State>,
    /// Notified when a lease is to be looked at earlier than the task sleeps.
    earlier: Notify,
}

#[derive(Default)]
struct State {
    /// The leases by number, each with the time when to look at it.
    leases: HashMap<u64, (Instant, Arc<Held>)>,
    /// The same times, in their order.
    due: BTreeSet<(Instant, u64)>,
    /// The number of the last lease.
    number: u64,
    is_running: bool,
    /// The task sleeps until this time.
    sleeps: Option<Instant>,
}

/// The leases of one call, each with its number, which are locked.
type Batch = Vec<(u64, Arc<Held>, OwnedMutexGuard<()>)>;

enum Step {
    End,
    Sleep(Instant),
    Renew(Batch),
    Lost(Arc<Held>),
}

impl State {
    /// Removes a lease, if it is there.
    fn remove(&mut self, number: u64) -> Option<Arc<Held>> {
        let (at, held) = self.leases.remove(&number)?;
        self.due.remove(&(at, number));
        Some(held)
    }

    /// Looks at a lease at that time, if it is there. Returns whether the task sleeps too long.
    fn look_at(&mut self, number: u64, later: Instant) -> bool {
        let Some((at, _)) = self.leases.get_mut(&number) else {
            return false;
        };
        self.due.remove(&(*at, number));
        self.due.insert((later, number));
        *at = later;
        self.sleeps.is_some_and(|sleeps| later < sleeps)
    }

    /// Returns what to do next. `soon` is how long before its time a lease is renewed together with others.
    fn next(&mut self, now: Instant, soon: Duration) -> Step {
        self.sleeps = None;
        let Some(&(at, number)) = self.due.first() else {
            self.is_running = false;
            return Step::End;
        };
        if at > now {
            self.sleeps = Some(at);
            return Step::Sleep(at);
        }
        if self.leases[&number].1.until() <= now {
            return self.remove(number).map_or(Step::Sleep(now), Step::Lost);
        }
        let is_due = |(at, _): &&(Instant, u64)| *at <= now + soon;
        let due: Vec<_> = self.due.iter().take_while(is_due).copied().collect();
        let (mut batch, mut members) = (Batch::new(), 0);
        for (_, number) in due {
            let held = Arc::clone(&self.leases[&number].1);
            members += held.request.n;
            if members > MOST_MEMBERS && !batch.is_empty() {
                break;
            }
            // Until there is a reply, the lease is only looked at to lose it.
            self.look_at(number, held.until());
            if let Ok(renewing) = Arc::clone(&held.renewing).try_lock_owned() {
                batch.push((number, held, renewing));
            }
        }
        Step::Renew(batch)
    }
}

impl Renewals {
    /// Adds a lease that was granted by a call sent at `sent`. Returns its number, and whether the caller has to
    /// start the [task](run).
    pub(super) fn add(&self, held: Arc<Held>, sent: Instant, ttl: Duration) -> (u64, bool) {
        let state = &mut *lock(&self.state);
        state.number += 1;
        let number = state.number;
        state.leases.insert(number, (sent, held));
        if state.look_at(number, sent + third(ttl)) {
            self.earlier.notify_one();
        }
        (number, !std::mem::replace(&mut state.is_running, true))
    }

    /// Removes a lease, to release it. Returns whether it was not lost before.
    pub(super) fn remove(&self, number: u64) -> bool {
        lock(&self.state).remove(number).is_some()
    }

    fn look_at(&self, number: u64, at: Instant) {
        if lock(&self.state).look_at(number, at) {
            self.earlier.notify_one();
        }
    }
}

/// The task of a semaphore. When it is dropped before its end, no lease is renewed any more.
pub(super) struct Renewing {
    shared: Arc<Shared>,
    is_done: bool,
}

impl Renewing {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            is_done: false,
        }
    }

    pub(super) async fn run(mut self) {
        let shared = &self.shared;
        let (renewals, ttl) = (&shared.limit.renewals, shared.limit.options.ttl);
        let mut calls = JoinSet::new();
        loop {
            let step = lock(&renewals.state).next(Instant::now(), ttl / 30);
            match step {
                Step::End => break,
                Step::Sleep(at) => {
                    let earlier = renewals.earlier.notified();
                    let _ = tokio::time::timeout_at(at.into(), earlier).await;
                }
                Step::Lost(held) => lost(shared, &held),
                Step::Renew(batch) => {
                    while calls.len() >= MOST_CALLS {
                        calls.join_next().await;
                    }
                    calls.spawn(renew(Arc::clone(shared), batch));
                }
            }
            while calls.try_join_next().is_some() {}
        }
        // Another task may run by now.
        self.is_done = true;
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let state = &mut *lock(&self.shared.limit.renewals.state);
        state.is_running = false;
        // Their holders release them, and learn that there is no runtime.
        for (_, held) in state.leases.values() {
            held.lost.cancel();
        }
    }
}

/// Renews the leases of one call.
async fn renew(shared: Arc<Shared>, batch: Batch) {
    let (renewals, ttl) = (&shared.limit.renewals, shared.limit.options.ttl);
    let leases: Vec<_> = batch.iter().map(|(_, held, _)| &**held).collect();
    let sent = Instant::now();
    let answer = shared.renew(&leases).await;
    // The leases of one call stay together.
    let next = sent + third(ttl);
    for (index, (number, held, renewing)) in batch.into_iter().enumerate() {
        let is_held = answer.as_ref().map(|verdicts| verdicts[index]);
        match is_held {
            // After a pause of the process it may send one renewal although the lease is over; the store renews
            // only leases that it still has.
            Ok(true) if held.prolong(sent + held_for(ttl)) => renewals.look_at(number, next),
            Ok(_) => {
                if renewals.remove(number) {
                    lost(&shared, &held);
                }
            }
            Err(_) => {
                renewals.look_at(number, held.until().min(Instant::now() + shared.pause()));
            }
        }
        drop(renewing);
    }
}

/// Ends a lease that is lost, and returns what the server may still have of it.
fn lost(shared: &Arc<Shared>, held: &Held) {
    held.lost.cancel();
    // A renewal may have been executed without a reply.
    shared.release_later(vec![held.request.clone()], shared.limit.options.ttl);
}

/// Returns a random time slightly below a third.
fn third(ttl: Duration) -> Duration {
    (ttl / 3).mul_f64(1.0 - fastrand::f64() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::state::Request;

    const TTL: Duration = Duration::from_secs(30);

    fn lease(n: u32, until: Instant) -> Arc<Held> {
        Arc::new(Held {
            request: Request {
                n,
                ..Request::default()
            },
            until: Mutex::new(Some(until)),
            ..Held::default()
        })
    }

    /// Returns the numbers of the leases of the next call.
    #[track_caller]
    fn batch(step: Step) -> Vec<u64> {
        match step {
            Step::Renew(batch) => batch.iter().map(|(number, ..)| *number).collect(),
            _ => panic!("a call is due"),
        }
    }

    #[test]
    fn next_renews_those_that_are_due_soon_together_up_to_a_size() {
        let (renewals, now) = (Renewals::default(), Instant::now());
        for n in [100, 100, 100, 1, 5_000] {
            renewals.add(lease(n, now + TTL), now, TTL);
        }
        let mut state = lock(&renewals.state);
        let second = Duration::from_secs(1);
        for (number, seconds) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 4)] {
            state.look_at(number, now + seconds * second);
        }
        assert!(matches!(state.next(now, second), Step::Sleep(at) if at == now + second));
        assert_eq!(batch(state.next(now + second, second)), [1, 2]);
        // They are not renewed again before there is a reply.
        assert_eq!(batch(state.next(now + 2 * second, second)), [3, 4]);
        assert_eq!(batch(state.next(now + 4 * second, second)), [5]);
        assert!(matches!(state.next(now + 5 * second, second), Step::Sleep(at) if at == now + TTL));
    }

    #[test]
    fn next_loses_a_lease_whose_time_is_over_and_ends_without_leases() {
        let (renewals, now) = (Renewals::default(), Instant::now());
        assert_eq!(renewals.add(lease(1, now + TTL), now, TTL), (1, true));
        assert_eq!(renewals.add(lease(1, now + TTL), now, TTL), (2, false));
        assert!(renewals.remove(1) && !renewals.remove(1));
        let mut state = lock(&renewals.state);
        assert!(matches!(state.next(now + TTL, TTL), Step::Lost(_)));
        assert!(matches!(state.next(now + TTL, TTL), Step::End));
        drop(state);
        // Another task is needed.
        assert_eq!(renewals.add(lease(1, now + TTL), now, TTL), (3, true));
    }

    #[test]
    fn look_at_that_is_earlier_than_the_task_sleeps_wakes_it() {
        let (renewals, now) = (Renewals::default(), Instant::now());
        renewals.add(lease(1, now + TTL), now, TTL);
        let mut state = lock(&renewals.state);
        state.look_at(1, now + TTL);
        assert!(matches!(state.next(now, Duration::ZERO), Step::Sleep(at) if at == now + TTL));
        assert!(!state.look_at(1, now + TTL) && state.look_at(1, now + TTL / 2));
    }
}
