//! [`Renewals`]: renews the leases of a semaphore, many in one call.
//!
//! 1. One task of the store's runtime renews all leases of a semaphore. It ends when there are none.
//! 2. A lease is due when about half of its ttl has passed, at a random time, so that the processes of a
//!    fleet do not all renew at once. A call renews also those that are due soon after; together at most
//!    [`MOST_MEMBERS`] permits, which take the server less than a millisecond, so that nobody else waits.
//! 3. A call holds the lock `renewing` of its leases, and a release waits for it. So no renewal comes after the
//!    release.
//! 4. A lease is lost when its time is over, also during a call; when the server does not have it any more; and
//!    when the task is dropped with its runtime.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::task::JoinSet;

use super::boot_instant::BootInstant;
use super::state::Shared;
use super::{Held, held_for};
use crate::sync::{Mutex, lock};

/// The maximum number of permits in one call, unless a single lease has more.
const MOST_MEMBERS: u32 = 128;

/// The maximum number of calls at once: enough for a server far away, and less than a deadline of its work.
const MOST_CALLS: usize = 8;

/// The time until a lease that could not be locked is looked at again.
const AGAIN: Duration = Duration::from_millis(1);

#[derive(Default)]
pub(super) struct Renewals {
    state: Mutex<State>,
    /// Notified when the task sleeps too long.
    earlier: Notify,
}

#[derive(Default)]
struct State {
    leases: HashMap<u64, Entry>,
    /// The leases that are not being renewed, by the time when they are due.
    due: BTreeSet<(BootInstant, u64)>,
    /// All leases, by the time when they are over.
    ends: BTreeSet<(BootInstant, u64)>,
    /// The number of the last lease.
    number: u64,
    is_running: bool,
    /// The task sleeps until this time.
    sleeps: Option<BootInstant>,
}

struct Entry {
    held: Arc<Held>,
    /// `None` while it is being renewed.
    due: Option<BootInstant>,
    end: BootInstant,
}

/// The leases of one call, each with its number, which are locked.
type Batch = Vec<(u64, Arc<Held>, OwnedMutexGuard<()>)>;

enum Step {
    End,
    Sleep(BootInstant),
    Renew(Batch),
    Lost(Arc<Held>),
}

impl State {
    /// Removes a lease, if it is there.
    fn remove(&mut self, number: u64) -> Option<Arc<Held>> {
        let entry = self.leases.remove(&number)?;
        self.ends.remove(&(entry.end, number));
        if let Some(due) = entry.due {
            self.due.remove(&(due, number));
        }
        Some(entry.held)
    }

    /// Sets when a lease is due, if it is there, and when it is over. Returns whether the task sleeps too long.
    fn set(&mut self, number: u64, due: Option<BootInstant>) -> bool {
        let Some(entry) = self.leases.get_mut(&number) else {
            return false;
        };
        let end = entry.held.until();
        self.ends.remove(&(entry.end, number));
        self.ends.insert((end, number));
        if let Some(due) = entry.due {
            self.due.remove(&(due, number));
        }
        self.due.extend(due.map(|due| (due, number)));
        (entry.due, entry.end) = (due, end);
        let next = due.map_or(end, |due| due.min(end));
        self.sleeps.is_some_and(|sleeps| next < sleeps)
    }

    /// Returns what to do next. `soon` is how long before its time a lease is renewed together with others; without
    /// it, none is renewed now.
    fn next(&mut self, now: BootInstant, soon: Option<Duration>) -> Step {
        self.sleeps = None;
        let Some(&(end, number)) = self.ends.first() else {
            self.is_running = false;
            return Step::End;
        };
        if end <= now
            && let Some(held) = self.remove(number)
        {
            return Step::Lost(held);
        }
        let first = self.due.first().filter(|_| soon.is_some());
        let first = first.map_or(end, |(due, _)| end.min(*due));
        if first > now {
            self.sleeps = Some(first);
            return Step::Sleep(first);
        }
        let latest = now + soon.unwrap_or_default();
        let due = self.due.iter().take_while(|(due, _)| *due <= latest);
        let due: Vec<_> = due.map(|(_, number)| *number).collect();
        let (mut batch, mut members) = (Batch::new(), 0);
        for number in due {
            let held = Arc::clone(&self.leases[&number].held);
            members += held.request.n;
            if members > MOST_MEMBERS && !batch.is_empty() {
                break;
            }
            // Nobody else has it: a lease that is being released is not here any more.
            if let Ok(renewing) = Arc::clone(&held.renewing).try_lock_owned() {
                self.set(number, None);
                batch.push((number, held, renewing));
            } else {
                self.set(number, Some(now + AGAIN));
            }
        }
        Step::Renew(batch)
    }
}

impl Renewals {
    /// Adds a lease that was granted by a call sent at `sent`. Returns its number, and whether the caller has to
    /// start the [task](Renewing).
    pub(super) fn add(&self, held: Arc<Held>, sent: BootInstant, ttl: Duration) -> (u64, bool) {
        let state = &mut *lock(&self.state);
        state.number += 1;
        let (number, end) = (state.number, held.until());
        let due = None;
        state.leases.insert(number, Entry { held, due, end });
        if state.set(number, Some(sent + half(ttl))) {
            self.earlier.notify_one();
        }
        (number, !std::mem::replace(&mut state.is_running, true))
    }

    /// Removes a lease, to release it. Returns whether it was not lost before.
    pub(super) fn remove(&self, number: u64) -> bool {
        lock(&self.state).remove(number).is_some()
    }

    fn set_due(&self, number: u64, due: BootInstant) {
        if lock(&self.state).set(number, Some(due)) {
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
            let soon = (calls.len() < MOST_CALLS).then_some(ttl / 30);
            let now = BootInstant::by(shared.store.time());
            let step = lock(&renewals.state).next(now, soon);
            match step {
                Step::End => break,
                Step::Sleep(at) => {
                    let mut earlier = pin!(renewals.earlier.notified());
                    let woken = poll_fn(|cx| {
                        let is_done = matches!(calls.poll_join_next(cx), Poll::Ready(Some(_)));
                        if is_done {
                            Poll::Ready(())
                        } else {
                            earlier.as_mut().poll(cx)
                        }
                    });
                    // What is to be done is decided anew, whatever the reason.
                    let until = shared.now() + at.sleep_time_from(now);
                    let _ = shared.store.time().timeout_at(until, woken).await;
                }
                Step::Lost(held) => lost(shared, &held),
                Step::Renew(batch) => {
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
        for entry in state.leases.values() {
            entry.held.lost.cancel();
        }
    }
}

/// Renews the leases of one call.
async fn renew(shared: Arc<Shared>, batch: Batch) {
    let (renewals, ttl) = (&shared.limit.renewals, shared.limit.options.ttl);
    let leases: Vec<_> = batch.iter().map(|(_, held, _)| &**held).collect();
    let time = shared.store.time();
    let sent = BootInstant::by(time);
    let answer = shared.renew(&leases).await;
    // The leases of one call stay together.
    let next = sent + half(ttl);
    for (index, (number, held, renewing)) in batch.into_iter().enumerate() {
        // Before the lease is due again, which may be at once.
        drop(renewing);
        match answer.as_ref().map(|verdicts| verdicts[index]) {
            // After a pause of the process it may send one renewal although the lease is over; the store renews
            // only leases that it still has.
            Ok(true) if held.prolong(sent + held_for(ttl), time) => renewals.set_due(number, next),
            Ok(_) => {
                if renewals.remove(number) {
                    lost(&shared, &held);
                }
            }
            Err(_) => renewals.set_due(number, BootInstant::by(time) + shared.pause()),
        }
    }
}

/// Ends a lease that is lost, and returns what the server may still have of it.
fn lost(shared: &Arc<Shared>, held: &Held) {
    held.lost.cancel();
    // A renewal may have been executed without a reply.
    shared.release_later(vec![held.request.clone()], shared.limit.options.ttl);
}

/// Returns a random time slightly below a half: what is left of the ttl is for further attempts.
fn half(ttl: Duration) -> Duration {
    (ttl / 2).mul_f64(1.0 - fastrand::f64() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::state::Request;

    const TTL: Duration = Duration::from_secs(30);

    fn lease(n: u32, until: BootInstant) -> Arc<Held> {
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
        let (renewals, now) = (Renewals::default(), BootInstant::now());
        for n in [50, 50, 50, 1, 5_000] {
            renewals.add(lease(n, now + TTL), now, TTL);
        }
        let mut state = lock(&renewals.state);
        let second = Duration::from_secs(1);
        let soon = Some(second);
        for (number, seconds) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 4)] {
            state.set(number, Some(now + seconds * second));
        }
        assert!(matches!(state.next(now, soon), Step::Sleep(at) if at == now + second));
        assert!(matches!(state.next(now + second, None), Step::Sleep(at) if at == now + TTL));
        assert_eq!(batch(state.next(now + second, soon)), [1, 2]);
        // They are not renewed again before there is a reply.
        assert_eq!(batch(state.next(now + 2 * second, soon)), [3, 4]);
        assert_eq!(batch(state.next(now + 4 * second, soon)), [5]);
        assert!(matches!(state.next(now + 5 * second, soon), Step::Sleep(at) if at == now + TTL));
    }

    #[test]
    fn next_loses_a_lease_whose_time_is_over_before_it_renews_others() {
        let (renewals, now) = (Renewals::default(), BootInstant::now());
        assert_eq!(renewals.add(lease(1, now + TTL), now, TTL), (1, true));
        assert_eq!(renewals.add(lease(1, now + TTL), now, TTL), (2, false));
        renewals.add(lease(1, now + 2 * TTL), now, TTL);
        assert!(renewals.remove(1) && !renewals.remove(1));
        let mut state = lock(&renewals.state);
        assert!(matches!(state.next(now + TTL, Some(TTL)), Step::Lost(_)));
        assert_eq!(batch(state.next(now + TTL, Some(TTL))), [3]);
        // Also while it is being renewed.
        assert!(matches!(state.next(now + 2 * TTL, None), Step::Lost(_)));
        assert!(matches!(state.next(now + 2 * TTL, Some(TTL)), Step::End));
        drop(state);
        // Another task is needed.
        assert_eq!(renewals.add(lease(1, now + TTL), now, TTL), (4, true));
    }

    #[test]
    fn set_due_earlier_than_the_task_sleeps_wakes_it() {
        let (renewals, now) = (Renewals::default(), BootInstant::now());
        renewals.add(lease(1, now + TTL), now, TTL);
        let mut state = lock(&renewals.state);
        state.set(1, None);
        let soon = Some(Duration::ZERO);
        assert!(matches!(state.next(now, soon), Step::Sleep(at) if at == now + TTL));
        assert!(!state.set(1, None) && state.set(1, Some(now + TTL / 2)));
    }
}
