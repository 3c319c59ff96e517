//! [`Renewals`]: renews the leases of a semaphore, or of those of all keys, many in one call.
//!
//! 1. One task of the store's runtime renews all leases of a [group](super::group). It ends when there are none, and has
//!    the calls of each semaphore as a future of its own, so a key whose node hangs delays no other.
//! 2. A lease is due when about half of its ttl has passed, at a random time, so that the processes of a
//!    fleet do not all renew at once. A step renews also those that are due soon after; together as many as a
//!    [request](super::batches) has, which takes the server less than a millisecond, so that nobody else waits.
//!    After a failure a lease is due after a pause, behind all that are due now.
//! 3. A call holds the lock `renewing` of its leases, and a release waits for it. So no renewal comes after the
//!    release.
//! 4. A lease is lost when its time is over, also during a call; when the server does not have it any more; and
//!    when the task is dropped with its runtime.

use std::collections::{BTreeSet, HashMap};
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, OwnedMutexGuard};

use super::batches::{MOST_UNITS, UNITS_OF_A_CALL};
use super::boot_instant::BootInstant;
use super::group::Group;
use super::state::Shared;
use super::{Held, held_for};
use crate::sync::{Mutex, lock};

/// The maximum number of leases that are renewed at once, so that other calls of their slot wait for at most some
/// hundred requests; and that in a cluster, where calls that a node does not answer hold back no other slot.
const MOST_RENEWED: usize = 1_024;
const MOST_RENEWED_OF_CLUSTER: usize = 16_384;

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
    shared: Arc<Shared>,
    held: Arc<Held>,
    /// `None` while it is being renewed.
    due: Option<BootInstant>,
    end: BootInstant,
}

/// The leases of one step.
type Batch = Vec<OfOne>;

/// Those of one semaphore, which are locked, each with its number.
struct OfOne {
    shared: Arc<Shared>,
    leases: Vec<(u64, Arc<Held>, OwnedMutexGuard<()>)>,
}

enum Step {
    End,
    Sleep(BootInstant),
    Renew(Batch),
    Lost(Arc<Shared>, Arc<Held>),
}

impl State {
    /// Removes a lease, if it is there.
    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.leases.remove(&number)?;
        self.ends.remove(&(entry.end, number));
        if let Some(due) = entry.due {
            self.due.remove(&(due, number));
        }
        Some(entry)
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

    /// Returns what to do next. `soon` is how long before its time a lease is renewed together with others; `most`
    /// is the number of leases that may be renewed at once.
    fn next(&mut self, now: BootInstant, soon: Duration, most: usize) -> Step {
        self.sleeps = None;
        let Some(&(end, number)) = self.ends.first() else {
            self.is_running = false;
            return Step::End;
        };
        if end <= now
            && let Some(Entry { shared, held, .. }) = self.remove(number)
        {
            return Step::Lost(shared, held);
        }
        let renewed = self.leases.len() - self.due.len();
        let room = most.saturating_sub(renewed);
        let first = self.due.first().filter(|_| room > 0);
        let first = first.map_or(end, |(due, _)| end.min(*due));
        if first > now {
            self.sleeps = Some(first);
            return Step::Sleep(first);
        }
        let due = self.due.iter().take_while(|(due, _)| *due <= now + soon);
        // Each has at least one unit.
        let due = due.take(MOST_UNITS.min(room));
        let due: Vec<_> = due.map(|(_, number)| *number).collect();
        let (mut batch, mut places, mut units) = (Batch::new(), HashMap::new(), 0);
        for number in due {
            let Entry { shared, held, .. } = &self.leases[&number];
            let (shared, held) = (Arc::clone(shared), Arc::clone(held));
            let address = Arc::as_ptr(&shared) as usize;
            units += held.request.n as usize;
            if !places.contains_key(&address) {
                units += UNITS_OF_A_CALL;
            }
            if units > MOST_UNITS && !batch.is_empty() {
                break;
            }
            // Nobody else has it: a lease that is being released is not here any more.
            if let Ok(renewing) = Arc::clone(&held.renewing).try_lock_owned() {
                self.set(number, None);
                let place = *places.entry(address).or_insert(batch.len());
                if place == batch.len() {
                    let leases = Vec::new();
                    batch.push(OfOne { shared, leases });
                }
                batch[place].leases.push((number, held, renewing));
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
    pub(super) fn add(
        &self,
        shared: &Arc<Shared>,
        held: Arc<Held>,
        sent: BootInstant,
        ttl: Duration,
    ) -> (u64, bool) {
        let state = &mut *lock(&self.state);
        state.number += 1;
        let (number, end) = (state.number, held.until());
        let entry = Entry {
            shared: Arc::clone(shared),
            held,
            due: None,
            end,
        };
        state.leases.insert(number, entry);
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

/// The task of a group. When it is dropped before its end, no lease is renewed any more.
pub(super) struct Renewing {
    group: Arc<Group>,
    renewals: Arc<Renewals>,
    is_done: bool,
}

impl Renewing {
    pub(super) fn new(group: &Arc<Group>, renewals: &Arc<Renewals>) -> Self {
        Self {
            group: Arc::clone(group),
            renewals: Arc::clone(renewals),
            is_done: false,
        }
    }

    pub(super) async fn run(mut self) {
        let group = Arc::clone(&self.group);
        let renewals = Arc::clone(&self.renewals);
        let (time, ttl) = (group.store.time(), group.options.ttl);
        let most = if group.store.is_cluster() {
            MOST_RENEWED_OF_CLUSTER
        } else {
            MOST_RENEWED
        };
        let mut calls = FuturesUnordered::new();
        loop {
            let now = BootInstant::by(time);
            let step = lock(&renewals.state).next(now, ttl / 30, most);
            match step {
                Step::End => break,
                Step::Sleep(at) => {
                    let mut earlier = pin!(renewals.earlier.notified());
                    let woken = poll_fn(|context| {
                        // Those that are new share requests.
                        let _gathering = group.batches.gather();
                        if poll_all(&mut calls, context) {
                            Poll::Ready(())
                        } else {
                            earlier.as_mut().poll(context)
                        }
                    });
                    // What is to be done is decided anew, whatever the reason.
                    let until = time.now() + at.sleep_time_from(now);
                    let _ = time.timeout_at(until, woken).await;
                }
                Step::Lost(shared, held) => lost(&shared, &held),
                Step::Renew(batch) => {
                    // The leases of one step stay together.
                    let next = now + half(ttl);
                    let each = batch.into_iter().map(|of_one| renew(of_one, now, next));
                    // After a panic the leases of that call are lost in time.
                    calls.extend(each.map(|call| AssertUnwindSafe(call).catch_unwind()));
                }
            }
        }
        // Another task may run by now. A release waits for a renewal that is under way.
        self.is_done = true;
        while calls.next().await.is_some() {}
    }
}

/// Polls the calls that are woken. Returns whether one has ended.
fn poll_all(calls: &mut FuturesUnordered<impl Future>, context: &mut Context<'_>) -> bool {
    let mut has_ended = false;
    while let Poll::Ready(Some(_)) = calls.poll_next_unpin(context) {
        has_ended = true;
    }
    has_ended
}

impl Drop for Renewing {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let state = &mut *lock(&self.renewals.state);
        state.is_running = false;
        // Their holders release them, and learn that there is no runtime.
        for entry in state.leases.values() {
            entry.held.lost.cancel();
        }
    }
}

/// Renews the leases of one semaphore, at `sent`, and again at `next`.
async fn renew(of_one: OfOne, sent: BootInstant, next: BootInstant) {
    let OfOne { shared, leases } = of_one;
    let group = &shared.limit.group;
    let time = group.store.time();
    let (renewals, ttl) = (&shared.limit.renewals, group.options.ttl);
    let all: Vec<_> = leases.iter().map(|(_, held, _)| Arc::clone(held)).collect();
    let answer = shared.renew(&all).await;
    for (index, (number, held, renewing)) in leases.into_iter().enumerate() {
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
            Err(_) => {
                let pause = group.pause().min(ttl / 10);
                renewals.set_due(number, BootInstant::by(time) + pause);
            }
        }
    }
}

/// Ends a lease that is lost, and returns what the server may still have of it.
fn lost(shared: &Arc<Shared>, held: &Held) {
    held.lost.cancel();
    // A renewal may have been executed without a reply.
    shared.release_later(vec![held.request.clone()], shared.limit.group.options.ttl);
}

/// Returns a random time slightly below a half: what is left of the ttl is for further attempts.
fn half(ttl: Duration) -> Duration {
    (ttl / 2).mul_f64(1.0 - fastrand::f64() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::lease::Semaphore;
    use crate::lease::state::Request;

    const TTL: Duration = Duration::from_secs(30);
    const MOST: usize = 1_000;

    /// Creates the semaphores of two keys.
    fn two() -> [Arc<Shared>; 2] {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.unwrap();
        let _inside = runtime.enter();
        let store = Store::new("redis://127.0.0.1:1/").unwrap();
        let model = Semaphore::new(&store, "jobs", 1).of_keys();
        ["a", "b"].map(|key| Arc::clone(model.of_key(key).shared()))
    }

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
            Step::Renew(batch) => {
                let leases = batch.iter().flat_map(|of_one| &of_one.leases);
                leases.map(|(number, ..)| *number).collect()
            }
            _ => panic!("a call is due"),
        }
    }

    #[test]
    fn next_renews_those_that_are_due_soon_together_up_to_a_size() {
        let (renewals, now) = (Renewals::default(), BootInstant::now());
        let [one, _] = &two();
        for n in [50, 50, 50, 1, 5_000] {
            renewals.add(one, lease(n, now + TTL), now, TTL);
        }
        let mut state = lock(&renewals.state);
        let second = Duration::from_secs(1);
        let soon = second;
        for (number, seconds) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 4)] {
            state.set(number, Some(now + seconds * second));
        }
        assert!(matches!(state.next(now, soon, MOST), Step::Sleep(at) if at == now + second));
        assert_eq!(batch(state.next(now + second, soon, MOST)), [1, 2]);
        // They are not renewed again before there is a reply.
        assert_eq!(batch(state.next(now + 2 * second, soon, MOST)), [3, 4]);
        assert_eq!(batch(state.next(now + 4 * second, soon, MOST)), [5]);
        assert!(
            matches!(state.next(now + 5 * second, soon, MOST), Step::Sleep(at) if at == now + TTL)
        );
    }

    #[test]
    fn next_of_many_keys_renews_fewer_leases_together() {
        let (renewals, now) = (Renewals::default(), BootInstant::now());
        let [one, other] = two();
        for n in [50, 50, 7, 2, 1] {
            let shared = if n == 50 { &one } else { &other };
            renewals.add(shared, lease(n, now + TTL), now, TTL);
        }
        let mut state = lock(&renewals.state);
        for number in 1..=5 {
            state.set(number, Some(now));
        }
        // 10 units for each of the two semaphores, 100 for the permits of one and 7 of the other.
        assert_eq!(batch(state.next(now, TTL, MOST)), [1, 2, 3]);
        assert_eq!(batch(state.next(now, TTL, MOST)), [4, 5]);
    }

    #[test]
    fn next_while_calls_hang_renews_others_up_to_a_number() {
        let (renewals, now) = (Renewals::default(), BootInstant::now());
        let [one, other] = two();
        for number in 0..1_000 {
            let shared = if number < 900 { &one } else { &other };
            renewals.add(shared, lease(1, now + TTL), now, TTL);
        }
        let mut state = lock(&renewals.state);
        for number in 1..=1_000 {
            state.set(number, Some(now));
        }
        // None of these calls ends.
        let mut renewed = Vec::new();
        while renewed.len() < 970 {
            renewed.extend(batch(state.next(now, TTL, 970)));
        }
        assert_eq!(renewed, (1..=970).collect::<Vec<_>>());
        assert!(matches!(state.next(now, TTL, 970), Step::Sleep(at) if at == now + TTL));
        // One fails, and is due behind the others.
        state.set(7, Some(now + AGAIN));
        assert_eq!(batch(state.next(now + AGAIN, TTL, 970)), [971]);
    }

    #[test]
    fn pause_of_many_leases_or_releases_is_longer() {
        let [one, _] = two();
        let group = &one.limit.group;
        let shortest = Duration::from_millis(50);
        assert!(group.pause() <= 2 * shortest);
        let releases: Vec<_> = (0..5_000).map(|_| Arc::clone(&group.releasing)).collect();
        assert!(group.pause() >= 5 * shortest);
        drop(releases);
        assert!(group.pause() <= 2 * shortest);
        let _leases: Vec<_> = (0..5_000).map(|_| Arc::clone(&group.held)).collect();
        assert!(group.pause() >= 5 * shortest);
    }

    #[test]
    fn next_loses_a_lease_whose_time_is_over_before_it_renews_others() {
        let (renewals, now) = (Renewals::default(), BootInstant::now());
        let [one, _] = &two();
        assert_eq!(renewals.add(one, lease(1, now + TTL), now, TTL), (1, true));
        assert_eq!(renewals.add(one, lease(1, now + TTL), now, TTL), (2, false));
        renewals.add(one, lease(1, now + 2 * TTL), now, TTL);
        assert!(renewals.remove(1) && !renewals.remove(1));
        let mut state = lock(&renewals.state);
        assert!(matches!(state.next(now + TTL, TTL, MOST), Step::Lost(..)));
        assert_eq!(batch(state.next(now + TTL, TTL, MOST)), [3]);
        // Also while it is being renewed.
        assert!(matches!(state.next(now + 2 * TTL, TTL, 0), Step::Lost(..)));
        assert!(matches!(state.next(now + 2 * TTL, TTL, MOST), Step::End));
        drop(state);
        // Another task is needed.
        assert_eq!(renewals.add(one, lease(1, now + TTL), now, TTL), (4, true));
    }

    #[test]
    fn set_due_earlier_than_the_task_sleeps_wakes_it() {
        let (renewals, now) = (Renewals::default(), BootInstant::now());
        let [one, _] = &two();
        renewals.add(one, lease(1, now + TTL), now, TTL);
        let mut state = lock(&renewals.state);
        state.set(1, None);
        let soon = Duration::ZERO;
        assert!(matches!(state.next(now, soon, MOST), Step::Sleep(at) if at == now + TTL));
        assert!(!state.set(1, None) && state.set(1, Some(now + TTL / 2)));
    }
}
