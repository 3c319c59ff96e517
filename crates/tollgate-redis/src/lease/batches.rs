//! [`Batches`]: the calls of the semaphores of a [group](super::group), several in one request.
//!
//! 1. A call is made at once, in the future of its caller, while fewer than [`MOST_CALLS`] requests of its slot are
//!    under way, and nothing is [gathered](Batches::gather). Otherwise it waits for the next request of its slot. So a few
//!    calls lose no time, and many share requests.
//! 2. Beyond [`MOST_CALLS_OF_ALL`] requests of all slots, a slot has one at a time. So the requests that a node of a
//!    cluster does not answer are bounded, and those to the other nodes are still made: nobody knows which slots
//!    hang together.
//! 3. A request has at most [`MOST_UNITS`], which take the server less than a millisecond, so that nobody else waits.
//! 4. If the server refuses a request of several calls, each is repeated alone, so that a key of another type, or one
//!    without rights, is a failure of its own semaphore alone. A call may be executed twice: that changes nothing.
//! 5. A call whose caller has left is not sent.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use redis::{Arg, Cmd, Value};
use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::keys;
use crate::script::{LEASE, LEASES, numbers};
use crate::store::Store;
use crate::sync::{Mutex, lock};

/// The maximum number of requests of a slot at once: 176 keys for each round trip, so 3,500 a second for a server that is
/// 50 milliseconds away.
const MOST_CALLS: usize = 16;

/// The number of requests of all slots from which on a slot has one at a time.
const MOST_CALLS_OF_ALL: usize = 1_024;

/// The maximum units of a request, unless a single call has more: one for each permit or ticket.
pub(super) const MOST_UNITS: usize = 128;

/// The units of a call, beside those of its permits and tickets. The server needs up to 302,000 instructions for it, as for
/// five of the plainest decisions by GCRA; a core makes about 70,000 of these a second.
pub(super) const UNITS_OF_A_CALL: usize = 10;

/// A call of the script for one semaphore.
pub(super) struct Part {
    keys: Arc<keys::Semaphore>,
    what: &'static str,
    /// The number of permits, and the times of the script in microseconds: the ttl, the grace, the time to claim, and
    /// how long the state is kept.
    numbers: [u64; 5],
    /// The server refuses it after its deadline.
    is_in_time: bool,
    /// The arguments of the operation, without a command.
    rest: Cmd,
    units: usize,
}

type Answer = Result<Vec<u64>, StoreError>;

struct Waiting {
    part: Part,
    answer: oneshot::Sender<Answer>,
}

pub(super) struct Batches {
    store: Store,
    /// Whether there are several semaphores, whose calls may share requests.
    has_keys: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Only slots in which calls wait or are under way.
    slots: HashMap<u16, Slot>,
    /// The slots in which calls wait, and may be made, in the order in which it is their turn.
    next: VecDeque<u16>,
    /// The number of requests under way in all slots.
    calls: usize,
    /// The number of those who gather calls.
    gathering: usize,
}

#[derive(Default)]
struct Slot {
    waiting: VecDeque<Waiting>,
    calls: usize,
    /// It is in `next`.
    is_next: bool,
}

impl State {
    /// Returns the maximum number of requests of a slot now.
    fn most_of_slot(&self) -> usize {
        if self.calls < MOST_CALLS_OF_ALL {
            MOST_CALLS
        } else {
            1
        }
    }

    /// Begins a request of one call, unless it has to wait.
    fn begin_alone(&mut self, slot: u16) -> bool {
        let most = self.most_of_slot();
        let of_slot = self.slots.entry(slot).or_default();
        let is_free = of_slot.waiting.is_empty() && of_slot.calls < most;
        let begins = is_free && self.gathering == 0;
        of_slot.calls += usize::from(begins);
        self.calls += usize::from(begins);
        begins
    }

    fn wait(&mut self, slot: u16, waiting: Waiting) {
        let of_slot = self.slots.entry(slot).or_default();
        of_slot.waiting.push_back(waiting);
        self.may_be_next(slot);
    }

    /// Lets a slot have its turn, if calls wait there, and may be made. Otherwise the end of one of its own requests
    /// does.
    fn may_be_next(&mut self, slot: u16) {
        let most = self.most_of_slot();
        let Some(of_slot) = self.slots.get_mut(&slot) else {
            return;
        };
        if of_slot.waiting.is_empty() && of_slot.calls == 0 {
            self.slots.remove(&slot);
        } else if !of_slot.waiting.is_empty() && of_slot.calls < most && !of_slot.is_next {
            of_slot.is_next = true;
            self.next.push_back(slot);
        }
    }

    /// Begins the next request of several calls, if there are any and one may be made.
    fn begin(&mut self) -> Option<(u16, Vec<Waiting>)> {
        while self.gathering == 0 {
            let slot = self.next.pop_front()?;
            let most = self.most_of_slot();
            let of_slot = self.slots.get_mut(&slot)?;
            of_slot.is_next = false;
            if of_slot.calls >= most {
                continue;
            }
            let (mut batch, mut units) = (Vec::new(), 0);
            while let Some(first) = of_slot.waiting.front() {
                units += first.part.units;
                if units > MOST_UNITS && !batch.is_empty() {
                    break;
                }
                batch.extend(of_slot.waiting.pop_front());
            }
            batch.retain(|waiting| !waiting.answer.is_closed());
            of_slot.calls += usize::from(!batch.is_empty());
            self.calls += usize::from(!batch.is_empty());
            self.may_be_next(slot);
            if !batch.is_empty() {
                return Some((slot, batch));
            }
        }
        None
    }

    fn ended(&mut self, slot: u16) {
        if let Some(of_slot) = self.slots.get_mut(&slot) {
            of_slot.calls -= 1;
            self.calls -= 1;
        }
        self.may_be_next(slot);
    }
}

impl Part {
    /// Creates a call. `rest` adds the arguments of the operation, for so many permits or tickets.
    pub(super) fn new(
        keys: &Arc<keys::Semaphore>,
        what: &'static str,
        numbers: [u64; 5],
        items: usize,
        rest: impl FnOnce(&mut Cmd),
    ) -> Self {
        let mut arguments = Cmd::new();
        rest(&mut arguments);
        Self {
            keys: Arc::clone(keys),
            what,
            numbers,
            is_in_time: false,
            rest: arguments,
            units: UNITS_OF_A_CALL + items,
        }
    }

    /// The server refuses it if it is executed after the deadline of the store.
    pub(super) fn in_time(mut self) -> Self {
        self.is_in_time = true;
        self
    }

    /// Adds the arguments to a command that is sent at `sent`.
    fn write(&self, command: &mut Cmd, store: &Store, sent: Instant) {
        let last = if self.is_in_time {
            store.last_micros(self.keys.leases(), sent)
        } else {
            u64::MAX
        };
        let [numbers @ .., lasts] = self.numbers;
        command.arg(self.what).arg(&numbers).arg(last).arg(lasts);
        for argument in self.rest.args_iter() {
            if let Arg::Simple(argument) = argument {
                command.arg(argument);
            }
        }
    }

    /// The number of arguments that [`write`](Self::write) adds.
    fn arguments(&self) -> usize {
        2 + self.numbers.len() + self.rest.args_iter().count()
    }

    fn learn(&self, store: &Store, reply: &[u64], sent: Instant) {
        if let Some(now) = reply.first() {
            store.learn_clock(self.keys.leases(), *now, sent);
        }
    }

    /// Makes this call alone.
    async fn call(&self, store: &Store) -> Answer {
        let sent = store.time().now();
        let call = store.call(&LEASE, &self.keys.all(), |command| {
            self.write(command, store, sent);
        });
        let reply = numbers(&call.await?)?;
        self.learn(store, &reply, sent);
        Ok(reply)
    }
}

/// Makes several calls of one slot in one request.
async fn call_all(store: &Store, parts: &[Waiting]) -> Result<Vec<Vec<u64>>, StoreError> {
    let parts = || parts.iter().map(|waiting| &waiting.part);
    let Some(first) = parts().next() else {
        return Ok(Vec::new());
    };
    let sent = store.time().now();
    let keys: Vec<_> = parts().flat_map(|part| part.keys.all()).collect();
    let call = store.call(&LEASES, &keys, |command| {
        for part in parts() {
            command.arg(part.arguments());
            part.write(command, store, sent);
        }
    });
    let replies = match call.await? {
        Value::Array(replies) if replies.len() == parts().count() => replies,
        _ => return Err(StoreError::Unknown),
    };
    let replies: Vec<_> = replies.iter().map(numbers).collect::<Result<_, _>>()?;
    first.learn(store, &replies[0], sent);
    Ok(replies)
}

/// Makes the calls of a request, and answers them.
async fn answer_all(store: &Store, batch: Vec<Waiting>) {
    let failed = match batch.len() {
        1 => None,
        _ => match call_all(store, &batch).await {
            Ok(replies) => {
                for (Waiting { answer, .. }, reply) in batch.into_iter().zip(replies) {
                    let _ = answer.send(Ok(reply));
                }
                return;
            }
            Err(error) => Some(error),
        },
    };
    // Not each of them would fail.
    let is_of_one = |error: StoreError| error.is_mistake() || error.is_outage_of_limit();
    if let Some(error) = failed.filter(|error| !is_of_one(*error)) {
        for Waiting { answer, .. } in batch {
            let _ = answer.send(Err(error));
        }
        return;
    }
    for Waiting { part, answer } in batch {
        if !answer.is_closed() {
            let _ = answer.send(part.call(store).await);
        }
    }
}

impl Batches {
    pub(super) fn new(store: Store, has_keys: bool) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(Self {
            store,
            has_keys,
            state,
        })
    }

    /// Makes a call, alone or together with others.
    pub(super) async fn call(self: &Arc<Self>, part: Part) -> Answer {
        let slot = self.store.part(part.keys.leases());
        let (part, receiver) = self.begin_or_wait(slot, part);
        if let Some(part) = part {
            // A call that is dropped goes on without its caller, and is counted no longer.
            let _ended = Ended {
                batches: self,
                slot,
            };
            return part.call(&self.store).await;
        }
        self.make_calls();
        receiver.await.unwrap_or(Err(StoreError::NoRuntime))
    }

    /// Returns a call that is made alone, and otherwise lets it wait for its answer.
    fn begin_or_wait(&self, slot: u16, part: Part) -> (Option<Part>, oneshot::Receiver<Answer>) {
        let mut state = lock(&self.state);
        let (answer, receiver) = oneshot::channel();
        if state.begin_alone(slot) {
            return (Some(part), receiver);
        }
        state.wait(slot, Waiting { part, answer });
        (None, receiver)
    }

    /// Makes the requests that may be made, each in a task.
    fn make_calls(self: &Arc<Self>) {
        loop {
            let begun = lock(&self.state).begin();
            let Some((slot, batch)) = begun else {
                return;
            };
            let requests = Requests {
                batches: Arc::clone(self),
                slot: Some(slot),
            };
            drop(self.store.runtime().spawn(requests.run(batch)));
        }
    }

    /// Calls of several semaphores that are made before the guard is dropped share requests. A single semaphore has one
    /// call for all its waiters, which is made at once.
    pub(super) fn gather(self: &Arc<Self>) -> Option<Gathering<'_>> {
        self.has_keys.then(|| {
            lock(&self.state).gathering += 1;
            Gathering(self)
        })
    }
}

pub(super) struct Gathering<'a>(&'a Arc<Batches>);

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).gathering -= 1;
        self.0.make_calls();
    }
}

/// A request of one call.
struct Ended<'a> {
    batches: &'a Arc<Batches>,
    slot: u16,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        lock(&self.batches.state).ended(self.slot);
        self.batches.make_calls();
    }
}

/// A task that makes requests of several calls, one after the other.
struct Requests {
    batches: Arc<Batches>,
    /// The slot of the request under way.
    slot: Option<u16>,
}

impl Requests {
    async fn run(mut self, batch: Vec<Waiting>) {
        let mut next = Some(batch);
        while let Some(batch) = next.take() {
            answer_all(&self.batches.store, batch).await;
            let mut state = lock(&self.batches.state);
            if let Some(slot) = self.slot.take() {
                state.ended(slot);
            }
            if let Some((slot, batch)) = state.begin() {
                (self.slot, next) = (Some(slot), Some(batch));
            }
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // Only if the runtime ends, or after a panic: nobody else makes the calls that wait.
        if let Some(slot) = self.slot.take() {
            let mut state = lock(&self.batches.state);
            state.ended(slot);
            let left: Vec<_> = state
                .slots
                .values_mut()
                .map(|of| std::mem::take(&mut of.waiting))
                .collect();
            state.next.clear();
            state.slots.retain(|_, of_slot| {
                of_slot.is_next = false;
                of_slot.calls > 0
            });
            drop(state);
            drop(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(store: &Store, name: &str, what: &'static str) -> Part {
        let keys = Arc::new(keys::Semaphore::new(name, store.is_cluster()));
        let second = 1_000_000;
        Part::new(&keys, what, [1, second, 0, second, second], 0, |_| ())
    }

    fn waiting(store: &Store, what: &'static str) -> (Waiting, oneshot::Receiver<Answer>) {
        let (answer, receiver) = oneshot::channel();
        let part = part(store, "jobs", what);
        (Waiting { part, answer }, receiver)
    }

    #[tokio::test]
    async fn begin_beyond_the_requests_of_a_slot_waits_and_shares() {
        let (store, mut state) = (Store::in_memory(), State::default());
        for _ in 0..MOST_CALLS {
            assert!(state.begin_alone(1));
        }
        assert!(!state.begin_alone(1));
        let receivers: Vec<_> = (0..30)
            .map(|_| {
                let (waiting, receiver) = waiting(&store, "look");
                state.wait(1, waiting);
                receiver
            })
            .collect();
        assert!(state.begin().is_none());
        state.ended(1);
        // Nobody passes those that wait.
        assert!(!state.begin_alone(1));
        let sizes = [12, 12, 6].map(|size| {
            let (slot, batch) = state.begin().unwrap();
            assert_eq!((slot, batch.len()), (1, size));
            state.ended(1);
            size
        });
        assert_eq!(sizes.iter().sum::<usize>(), receivers.len());
        assert!(state.begin_alone(1));
    }

    /// A cluster in which a node that has many slots answers nothing.
    #[tokio::test]
    async fn begin_while_many_calls_of_other_slots_hang_begins_one_of_each_slot() {
        let (store, mut state) = (Store::in_memory(), State::default());
        let hung = |state: &mut State| {
            let slots = (0..5_000).flat_map(|slot| [slot; MOST_CALLS]);
            slots.filter(|slot| state.begin_alone(*slot)).count()
        };
        // Each slot has one, and the first ones have more.
        let most = MOST_CALLS_OF_ALL + 5_000 - MOST_CALLS_OF_ALL / MOST_CALLS;
        assert_eq!((hung(&mut state), state.calls), (most, most));
        assert_eq!(hung(&mut state), 0);
        assert!(state.begin_alone(5_001) && !state.begin_alone(5_001));
        let receivers: Vec<_> = [5_000, 5_001, 5_000]
            .map(|slot| {
                let (waiting, receiver) = waiting(&store, "look");
                state.wait(slot, waiting);
                receiver
            })
            .into();
        let (slot, batch) = state.begin().unwrap();
        assert_eq!((slot, batch.len(), receivers.len()), (5_000, 2, 3));
        assert!(state.begin().is_none());
        state.ended(5_001);
        assert_eq!(state.begin().unwrap().0, 5_001);
        // The node is back.
        for slot in 0..5_000 {
            for _ in 0..state.slots.get(&slot).map_or(0, |of_slot| of_slot.calls) {
                state.ended(slot);
            }
        }
        assert_eq!((state.calls, state.slots.len()), (2, 2));
        assert!(state.begin_alone(5_001));
    }

    #[tokio::test]
    async fn begin_of_a_slot_that_was_next_before_others_began_waits() {
        let (store, mut state) = (Store::in_memory(), State::default());
        for _ in 0..MOST_CALLS {
            assert!(state.begin_alone(1));
        }
        let (waiting, _receiver) = waiting(&store, "look");
        state.wait(1, waiting);
        state.ended(1);
        for slot in 2..2_000 {
            assert!(state.begin_alone(slot));
        }
        for left in (0..MOST_CALLS - 1).rev() {
            assert!(state.begin().is_none(), "{left}");
            state.ended(1);
        }
        assert_eq!(state.begin().unwrap().0, 1);
    }

    #[tokio::test]
    async fn begin_and_begin_alone_while_calls_are_gathered_wait() {
        let (store, mut state) = (Store::in_memory(), State::default());
        state.gathering = 1;
        assert!(!state.begin_alone(1));
        let (left, receiver) = waiting(&store, "look");
        drop(receiver);
        let (stays, _receiver) = waiting(&store, "look");
        state.wait(1, left);
        state.wait(1, stays);
        assert!(state.begin().is_none());
        state.gathering = 0;
        assert_eq!(state.begin().unwrap().1.len(), 1, "one caller has left");
    }
}
