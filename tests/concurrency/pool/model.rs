//! Pools beside a model of them, in the sequences of a table and at random: which caller gets which
//! item, and which items are made and dropped.

use std::collections::VecDeque;
use std::future::ready;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::pool::Permit;
use tollgate::time::ManualClock;
use tollgate::{Clock, ErrorKind, Pool};

use super::{Item, Tally};
use crate::support::Waiter;
use crate::support::cases::cases;
use crate::support::scenarios::{Names, Words, at_random, call, check};

/// The source of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// All at the beginning.
    Ready,
    /// By a factory, on demand.
    Made,
    /// By an asynchronous factory that never waits, and that a try does not call.
    Async,
}

#[derive(Clone, Copy, Debug)]
struct Setup {
    kind: Kind,
    size: usize,
    /// Spoilt items are not taken again, and a try checks nothing.
    checks_on_take: bool,
    checks_on_return: bool,
    /// In seconds.
    idle_timeout: Option<u64>,
}

impl Setup {
    /// Returns whether idle items have to be checked before they are taken.
    fn looks(&self) -> bool {
        self.checks_on_take || self.idle_timeout.is_some()
    }
}

#[derive(Clone, Copy, Debug)]
struct Thing {
    number: usize,
    spoilt: bool,
    since: u64,
}

/// The answer to a caller that polls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    /// The number of the item.
    Item(usize),
    Refused(ErrorKind),
    Waits,
}

#[derive(Debug)]
struct Model {
    setup: Setup,
    size: usize,
    /// The longest idle items are first.
    idle: VecDeque<Thing>,
    held: Vec<Thing>,
    /// Leaked vacancies.
    leaked: usize,
    queue: VecDeque<usize>,
    /// The callers that were granted a vacancy, and take an item when they are polled.
    granted: Vec<usize>,
    refused: Vec<usize>,
    made: usize,
    dropped: usize,
    closed: bool,
    now: u64,
}

impl Model {
    fn new(setup: Setup) -> Self {
        let mut model = Self {
            setup,
            size: setup.size,
            idle: VecDeque::new(),
            held: Vec::new(),
            leaked: 0,
            queue: VecDeque::new(),
            granted: Vec::new(),
            refused: Vec::new(),
            made: 0,
            dropped: 0,
            closed: false,
            now: 0,
        };
        if setup.kind == Kind::Ready {
            for _ in 0..setup.size {
                let item = model.make();
                model.idle.push_back(item);
            }
        }
        model
    }

    fn make(&mut self) -> Thing {
        self.made += 1;
        Thing {
            number: self.made - 1,
            spoilt: false,
            since: self.now,
        }
    }

    fn in_use(&self) -> usize {
        self.held.len() + self.granted.len() + self.leaked
    }

    /// Returns the number of idle items that are not reserved for granted callers.
    fn spare(&self) -> usize {
        self.idle.len().saturating_sub(self.granted.len())
    }

    /// Takes an idle item for a caller; the expired ones before it are dropped.
    fn take_idle(&mut self) -> Option<Thing> {
        let timeout = self.setup.idle_timeout.unwrap_or(u64::MAX);
        while self.spare() > 0 {
            let item = self.idle.pop_front()?;
            if self.now - item.since < timeout {
                return Some(item);
            }
            self.dropped += 1;
        }
        None
    }

    /// Takes an item for a caller that may wait; the item is made if necessary.
    fn hold(&mut self) -> Answer {
        let mut item = self.take_idle();
        if self.setup.checks_on_take && item.is_some_and(|item| item.spoilt) {
            self.dropped += 1;
            item = None;
        }
        let item = item.unwrap_or_else(|| self.make());
        self.held.push(item);
        Answer::Item(item.number)
    }

    fn has_no_room(&self) -> bool {
        !self.queue.is_empty() || self.in_use() >= self.size
    }

    fn try_enter(&mut self) -> Answer {
        if self.closed {
            return Answer::Refused(ErrorKind::Closed);
        }
        if self.has_no_room() || self.setup.checks_on_take {
            return Answer::Refused(ErrorKind::NoPermits);
        }
        let item = match (self.take_idle(), self.setup.kind) {
            (None, Kind::Async) => return Answer::Refused(ErrorKind::NoPermits),
            (None, _) => self.make(),
            (Some(item), _) => item,
        };
        self.held.push(item);
        Answer::Item(item.number)
    }

    fn enter(&mut self, name: usize) -> Answer {
        if self.closed {
            return Answer::Refused(ErrorKind::Closed);
        }
        if self.has_no_room() {
            self.queue.push_back(name);
            return Answer::Waits;
        }
        self.hold()
    }

    /// Takes a name out of a list.
    fn take(names: &mut Vec<usize>, name: usize) -> bool {
        let at = names.iter().position(|other| *other == name);
        at.map(|at| names.remove(at)).is_some()
    }

    fn poll(&mut self, name: usize) -> Answer {
        if Self::take(&mut self.refused, name) {
            return Answer::Refused(ErrorKind::Closed);
        }
        if !Self::take(&mut self.granted, name) {
            return Answer::Waits;
        }
        if self.setup.looks() {
            return self.hold();
        }
        let item = self.idle.pop_front();
        let item = item.unwrap_or_else(|| self.make());
        self.held.push(item);
        Answer::Item(item.number)
    }

    /// Returns whether a waiter has been woken.
    fn is_answered(&self, name: usize) -> bool {
        self.refused.contains(&name) || self.granted.contains(&name)
    }

    fn drop_waiter(&mut self, name: usize) {
        self.queue.retain(|other| *other != name);
        Self::take(&mut self.refused, name);
        if Self::take(&mut self.granted, name) {
            // One of the items reserved for them goes to the end, where no caller has to check it.
            let item = if self.setup.looks() {
                None
            } else {
                self.idle.pop_front()
            };
            if let Some(item) = item {
                self.put(item, 1);
            }
        }
        self.serve();
    }

    /// Returns an item, whose vacancy this many others still share.
    fn put(&mut self, item: Thing, places: usize) {
        if self.closed || self.in_use() + places + self.spare() > self.size {
            self.dropped += 1;
        } else {
            self.idle.push_back(item);
        }
    }

    fn serve(&mut self) {
        while self.in_use() < self.size && !self.closed {
            let Some(name) = self.queue.pop_front() else {
                break;
            };
            self.granted.push(name);
        }
    }

    fn release(&mut self, at: usize, panicking: bool) {
        let item = self.held.remove(at);
        let is_lost = panicking && self.setup.kind != Kind::Ready;
        if is_lost || self.setup.checks_on_return && item.spoilt {
            return self.lost();
        }
        let item = Thing {
            since: self.now,
            ..item
        };
        self.put(item, 1);
        self.serve();
    }

    /// Drops a held item.
    fn lost(&mut self) {
        self.dropped += 1;
        let too_many = self.closed || self.in_use() + 1 + self.spare() > self.size;
        if self.setup.kind == Kind::Ready && !too_many {
            self.size -= 1;
        }
        self.serve();
    }

    fn set_size(&mut self, size: usize) {
        self.size = size;
        while self.spare() > 0 && self.in_use() + self.spare() > size {
            self.idle.pop_front();
            self.dropped += 1;
        }
        self.serve();
    }

    fn add(&mut self) {
        let item = self.make();
        if self.closed {
            self.dropped += 1;
            return;
        }
        self.size += 1;
        self.idle.push_back(item);
        self.serve();
    }

    fn close(&mut self) {
        self.closed = true;
        self.dropped += self.idle.drain(..).count();
        self.refused.append(&mut self.granted);
        self.refused.extend(self.queue.drain(..));
    }
}

type Held = Permit<Arc<Pool<Item>>, Item>;
type Wait = <Arc<Pool<Item>> as tollgate::Throttle>::Enter;
type Tested = Result<(), TestCaseError>;

struct World {
    names: Names,
    pool: Arc<Pool<Item>>,
    tally: Arc<Tally>,
    clock: ManualClock,
    model: Model,
    ids: usize,
    waiting: Vec<(usize, Waiter<tollgate::wait::Waiting<Wait>>)>,
    held: Vec<Held>,
}

impl World {
    fn new(setup: Setup, names: Names) -> Self {
        let (tally, clock) = (Arc::<Tally>::default(), Clock::manual());
        let made = Arc::clone(&tally);
        let mut pool = match setup.kind {
            Kind::Ready => Pool::new((0..setup.size).map(|_| tally.make()).collect::<Vec<_>>()),
            Kind::Made => Pool::with_factory(setup.size, move || made.make()),
            Kind::Async => {
                Pool::with_async_factory(setup.size, move || ready(Ok::<_, io::Error>(made.make())))
            }
        };
        if setup.checks_on_take {
            pool = pool.check_on_take(|item: Item| ready((!item.spoilt).then_some(item)));
        }
        if setup.checks_on_return {
            pool = pool.check_on_return(|item| !item.spoilt);
        }
        if let Some(seconds) = setup.idle_timeout {
            pool = pool
                .idle_timeout(Duration::from_secs(seconds))
                .clock(&clock);
        }
        Self {
            names,
            pool: Arc::new(pool),
            tally,
            clock,
            model: Model::new(setup),
            ids: 0,
            waiting: Vec::new(),
            held: Vec::new(),
        }
    }

    fn step(&mut self, text: &str) -> Tested {
        call(text, |call, words| self.call(call, words))?;
        self.compare()
    }

    fn call(&mut self, call: &str, words: &mut Words<'_>) -> Tested {
        match call {
            "try" => {
                let tried = Arc::clone(&self.pool).try_acquire_owned();
                let expected = self.model.try_enter();
                self.entered(Poll::Ready(tried), expected)?;
            }
            "acquire" => {
                self.ids += 1;
                let mut waiter = Waiter::new(Arc::clone(&self.pool).acquire_owned());
                let expected = self.model.enter(self.ids);
                let polled = waiter.poll();
                if self.entered(polled, expected)? {
                    self.waiting.push((self.ids, waiter));
                }
            }
            "poll" => {
                let at = self.names.choose(words, &self.waiting)?;
                let expected = self.model.poll(self.waiting[at].0);
                let polled = self.waiting[at].1.poll();
                if !self.entered(polled, expected)? {
                    self.waiting.remove(at);
                }
            }
            "drop" => {
                let at = self.names.choose(words, &self.waiting)?;
                let (name, waiter) = self.waiting.remove(at);
                drop(waiter);
                self.model.drop_waiter(name);
            }
            "add" => {
                self.pool.add(self.tally.make());
                self.model.add();
            }
            "size" => {
                let mut size: usize = words.parse();
                // A pool that cannot make items cannot grow.
                if self.names == Names::AtRandom && self.model.setup.kind == Kind::Ready {
                    size = size.min(self.model.size);
                }
                self.pool.set_size(size);
                self.model.set_size(size);
            }
            "close" => {
                self.pool.close();
                self.model.close();
            }
            "advance" => {
                let seconds = words.parse();
                self.clock.advance(Duration::from_secs(seconds));
                self.model.now += seconds;
            }
            "counts" => {
                let counts = (self.tally.made(), self.tally.dropped());
                prop_assert_eq!(counts, (words.parse(), words.parse()));
            }
            "item" => {
                let at = self.names.choose(words, &self.held)?;
                prop_assert_eq!(self.held[at].number, words.parse());
            }
            "spoil" => {
                let at = self.names.choose(words, &self.held)?;
                self.held[at].spoilt = true;
                self.model.held[at].spoilt = true;
            }
            _ => {
                let at = self.names.choose(words, &self.held)?;
                let permit = self.held.remove(at);
                self.give_back(call, at, permit);
            }
        }
        Ok(())
    }

    fn give_back(&mut self, how: &str, at: usize, permit: Held) {
        match how {
            "release" => {
                drop(permit);
                self.model.release(at, false);
            }
            "panic" => {
                let panicked = catch_unwind(AssertUnwindSafe(move || {
                    let _permit = permit;
                    resume_unwind(Box::new("a holder that panics on purpose"));
                }));
                assert!(panicked.is_err());
                self.model.release(at, true);
            }
            "discard" => {
                permit.discard();
                self.model.held.remove(at);
                self.model.lost();
            }
            "leak" => {
                std::mem::forget(permit);
                self.model.held.remove(at);
                self.model.leaked += 1;
            }
            _ => panic!("no call: {how:?}"),
        }
    }

    /// Whether it waits.
    fn entered(
        &mut self,
        polled: Poll<Result<Held, tollgate::AcquireError>>,
        expected: Answer,
    ) -> Result<bool, TestCaseError> {
        let answer = match &polled {
            Poll::Pending => Answer::Waits,
            Poll::Ready(Ok(permit)) => Answer::Item(permit.number),
            Poll::Ready(Err(error)) => Answer::Refused(error.kind()),
        };
        prop_assert_eq!(answer, expected);
        if let Poll::Ready(entered) = polled {
            self.held.extend(entered);
        }
        Ok(answer == Answer::Waits)
    }

    fn compare(&self) -> Tested {
        let (model, snapshot) = (&self.model, self.pool.snapshot());
        prop_assert_eq!(snapshot.limit, model.size as u64);
        prop_assert_eq!(snapshot.in_use, model.in_use() as u64);
        let free = model.size.saturating_sub(model.in_use());
        prop_assert!(model.closed || snapshot.available == free as u64);
        prop_assert_eq!(snapshot.waiting, model.queue.len());
        prop_assert_eq!(self.pool.is_closed(), model.closed);
        let counts = (self.tally.made(), self.tally.dropped());
        prop_assert_eq!(counts, (model.made, model.dropped));
        for (name, waiter) in &self.waiting {
            prop_assert_eq!(waiter.wakes(), usize::from(model.is_answered(*name)));
        }
        Ok(())
    }

    /// Lets every caller leave, and checks that every item that was not leaked is dropped with the
    /// pool.
    fn leave(mut self) -> Tested {
        while !self.waiting.is_empty() {
            self.step(&format!("drop {}", self.waiting.len() / 2))?;
        }
        while !self.held.is_empty() {
            self.step(&format!("release {}", self.held.len() / 2))?;
        }
        if self.model.leaked == 0 {
            drop(self.pool);
            prop_assert_eq!(self.tally.made(), self.tally.dropped());
        }
        Ok(())
    }
}

/// Each row has the kind of the pool, its size and options, and calls. The item of a caller is appended to
/// the permits, and a waiting caller to the waiters; `poll` and `drop` name a waiter, and `release`,
/// `panic` (of the holder), `spoil`, `discard` and `leak` a permit, by position. `item` states the item of
/// a permit, `counts` the numbers of made and dropped items.
const SCENARIOS: &str = "
# Which item one gets.
items are made when they are needed and then go round | made 3 | counts 0 0, try, item 0 0, acquire, acquire, item 2 2,
    try, acquire, counts 3 0, 3 x release 0, poll 0, release 0, 10 x try + release 0, counts 3 0
the item that has been idle for longest is next | ready 3 | 3 x try, item 0 0, item 1 1, item 2 2, release 2,
    release 0, release 0, 3 x try, item 0 2, item 1 0, item 2 1
a waiter gets the item that came back | ready 2 | try, try, acquire, acquire, release 1, release 0, poll 0, poll 0,
    item 0 1, item 1 0
waiters that are granted find the items in the order in which they come back | made 2 | try, try, acquire, acquire,
    size 4, release 1, release 0, poll 0, poll 0, item 0 1, item 1 0
a newcomer beside a granted waiter gets an item of its own | made 2 | try, try, acquire, release 0, discard 0, try,
    item 0 2, poll 0, item 1 0
a newcomer does not take the item that a granted waiter lacks | made 2 | try, try, acquire, discard 1, release 0, try,
    item 0 2, poll 0, item 1 0
a newcomer does not take an added item that a granted waiter lacks | made 2 | try, try, acquire, discard 1, add, try,
    poll 0, item 2 2
a granted item that is dropped goes to the next | made 1 | try, acquire, acquire, release 0, drop 0, poll 0, item 0 0
a leaked permit takes one item away and no more | ready 3 | try, try, leak 0, leak 0, 5 x try + try + release 0, close,
    counts 3 1
a pool that is dropped drops its items | ready 3 | try, release 0, counts 3 0

# The size.
set_size up admits waiters who make items | made 1 | try, 3 x acquire, size 3, poll 0, poll 0, poll 0, counts 3 0,
    release 0, poll 0, counts 3 0
set_size down drops idle items at once and held ones when they come back | ready 4 | 4 x try, release 0, size 1,
    counts 4 1, release 0, counts 4 2, try, release 0, counts 4 3, release 0, size 0, counts 4 4
set_size down drops the items that were idle for longest | made 3 | 3 x try, release 2, release 1, release 0,
    size 1, try, item 0 0
a smaller size keeps the item of a granted waiter | made 2 | try, try, acquire, release 0, size 1, poll 0, item 1 0,
    release 0, counts 2 1
a size of zero after cancelled grants leaves no item | made 2 | try, try, acquire, acquire, release 0, release 0,
    size 0, drop 0, drop 0, counts 2 2, size 1, try, item 0 2
add raises the size by one and serves a waiter | ready 1 | try, acquire, add, poll 0, item 1 1
add after close drops the item | ready 1 | close, add, counts 2 2
discard leaves a vacancy where items can be made | made 1 | try, discard 0, counts 1 1, acquire, item 0 1
discard makes a pool of given items smaller | ready 2 | try, try, discard 1, release 0, try, item 0 0, try, size 0,
    discard 0, add, try, item 0 2
discard of one of too many drops it | ready 2 | try, try, size 1, discard 0, counts 2 1, release 0, try, item 0 1
a discarded item admits a waiter who makes another one | made 1 | try, acquire, discard 0, poll 0, item 0 1

# Holders that panic, and checks.
an item that cannot be made again comes back as it is | ready 1 | try, panic 0, try, item 0 0, counts 1 0
an item that can be made again is replaced and the others are left alone | made 2 | try, try, acquire, panic 1,
    counts 2 1, poll 0, item 1 2, release 0, try, item 1 0
after close the item of a holder that panics is dropped once | made 1 | try, close, panic 0, counts 1 1
check_on_return discards what fails | ready 2 return | try, try, spoil 1, release 0, release 0, counts 2 1, try,
    item 0 0, try
check_on_return replaces what fails where items can be made | made 1 return | try, acquire, spoil 0, release 0, poll 0,
    item 0 1
check_on_take drops what fails and makes another one | async 1 take | acquire, release 0, acquire, item 0 0, spoil 0,
    release 0, counts 1 0, acquire, item 0 1, counts 2 1
check_on_take after a factory that does not wait checks as well | made 1 take | acquire, spoil 0, release 0, acquire,
    item 0 1
check_on_take of a granted item runs when the waiter is polled | async 1 take | acquire, acquire, spoil 0, release 0,
    counts 1 0, poll 0, item 0 1, counts 2 1
try_acquire of a pool that checks takes nothing | async 1 take | try, acquire, release 0, try, counts 1 0, close, try
a try never calls an asynchronous factory | async 2 | try, acquire, release 0, try, try, counts 1 0

# Idle times, in seconds.
idle_timeout drops an item that was idle for so long when it would be taken | made 1 idle 60 | try, release 0,
    3 x advance 59 + try + release 0, counts 1 0, advance 60, counts 1 0, try, item 0 1, counts 2 1
idle_timeout does not count the time of the holder | made 1 idle 60 | try, advance 60, release 0, try, item 0 0
idle_timeout of several items is that of each | made 4 idle 60 | 4 x try, 3 x advance 15 + release 0, advance 30,
    size 3, counts 4 1, try, try, item 1 1, item 2 2, release 1, release 1, close, release 0, counts 4 4
idle_timeout leaves a try nothing where the factory is asynchronous | async 1 idle 60 | acquire, release 0, try,
    release 0, advance 60, try, acquire, item 0 1
idle_timeout lets a try have an item behind one that is too old | async 2 idle 10 | acquire, acquire, release 0,
    advance 9, release 0, advance 2, try, item 0 1
idle_timeout of granted and cancelled items loses none | made 2 idle 60 | try, try, acquire, acquire, release 0, drop 0,
    poll 0, item 1 0, release 0, release 0, advance 60, try, try, counts 4 2

# Closing.
close drops idle items at once and held ones with their permits | ready 4 | try, try, close, counts 4 2, release 0,
    close, counts 4 3, release 0, counts 4 4
close refuses a waiter that was woken and has not run | made 2 | try, try, acquire, acquire, release 0, release 0,
    close, counts 2 2, poll 0, poll 0, counts 2 2
close drops an item that was given and promised | ready 1 | try, acquire, release 0, close, counts 1 1, poll 0
what is not needed before close is never made | made 3 | try, release 0, close, try, acquire, counts 1 1
";

fn setup(text: &str) -> Setup {
    let mut words = Words::new(text);
    let kind = match words.word() {
        "ready" => Kind::Ready,
        "made" => Kind::Made,
        "async" => Kind::Async,
        kind => panic!("no kind: {kind:?}"),
    };
    let setup = Setup {
        kind,
        size: words.parse(),
        checks_on_take: words.says("take"),
        checks_on_return: words.says("return"),
        idle_timeout: words.says("idle").then(|| words.parse()),
    };
    words.end();
    setup
}

fn run(setup: Setup, names: Names, calls: &[String]) -> Tested {
    let mut world = World::new(setup, names);
    for call in calls {
        world.step(call)?;
    }
    world.leave()
}

#[test]
fn pool_in_each_scenario_does_what_the_model_does() {
    check(SCENARIOS, |row| {
        run(setup(&row.setup), Names::Exactly, &row.texts())
    });
}

fn any_setup() -> impl Strategy<Value = Setup> {
    let kind = prop::sample::select(vec![Kind::Ready, Kind::Made, Kind::Async]);
    let idle_timeout = prop::option::weighted(0.3, 1..4_u64);
    let setup = (kind, 1..5_usize, any::<bool>(), any::<bool>(), idle_timeout);
    setup.prop_map(|(kind, size, takes, returns, idle_timeout)| Setup {
        kind,
        size,
        checks_on_take: takes && kind != Kind::Ready,
        checks_on_return: returns,
        idle_timeout: idle_timeout.filter(|_| kind != Kind::Ready),
    })
}

const CALLS: &str = "12 try, 24 acquire, 24 poll #, 9 drop #, 24 release #, 3 panic #, 6 spoil #, 3 discard #, 3 add, \
    6 size 0..6, 6 advance 1..3, 1 close";

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn agrees_with_lists_of_items_and_waiters(
        setup in any_setup(),
        calls in at_random(CALLS, 80),
    ) {
        run(setup, Names::AtRandom, &calls)?;
    }
}
