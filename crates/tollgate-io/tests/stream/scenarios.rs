//! Tests sequences of polls: a table of rows for both adapters, and random ones, polled only after a wake, as an
//! executor does. `for_each_concurrent` of futures is the model of the running items.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::Poll;

use futures::stream::{self, FusedStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use proptest::prelude::*;
use proptest::sample::Index;
use tollgate::semaphore::OwnedPermit;
use tollgate::{AcquireError, Semaphore};
use tollgate_io::stream::LimitStreamExt;

use super::{Jobs, Polled};
use crate::support::cases::cases;
use crate::support::scenarios::{Row, Words, at_random, call, check, follow};
use crate::support::{Waiter, assert_at_rest};

/// A set-up has the permits of a semaphore and the items of the stream, which is `whole` or `open`. A row runs for
/// both adapters, unless its set-up begins with one. [`World::call`] has the calls. After each row all permits must
/// come back.
const ROWS: &str = "
# The order.
items start in order and one at most waits outside | 2 whole 1-5 | log, 3 x run = waits,
    log = take1 run1 take2 run2 take3, free = 0, waiting = 1, finish 2, woken = 1, run = 2 waits,
    log = end2 drop2 run3 take4, finish 4, woken = 0, run = waits, log, waiting = 1
results come in the order in which work is finished | 4 whole 1-4 | run = waits, finish 3, finish 1, finish 4, finish 2,
    run = 3 1 4 2 end
each result is awaited           | 4 whole 1-4 | run = waits, finish 3, run = 3 waits, finish 1, run = 1 waits, finish 4,
    run = 4 waits, finish 2, run = 2 end
its own permit lets the next one in | 1 whole 1-3 | run = waits, finish 1, woken = 1, run = 1 waits, finish 2, woken = 1,
    run = 2 waits, finish 3, woken = 1, run = 3 end
a permit comes back before its result is yielded | buffer 2 whole 1-2 | run = waits, free = 0, finish 1, free = 0, next = 1,
    free = 1, finish 2, next = 2, free = 2, next = end
nothing is taken while nobody polls and then as many as there is room for | buffer 2 whole 1-5 | run = waits,
    log = take1 run1 take2 run2 take3, finish 1-5, log, next = 1, log = end1 drop1, next = 2, next = 3, next = 4, next = 5,
    next = end
the item that waits is admitted while nobody polls | buffer 1 whole 1-3 | run = waits, acquire, finish 1, next = 1, free = 0,
    waiting = 1, log = take1 run1 take2 end1 drop1, acquired = no, finish 2, next = 2, acquired = yes
work is created of an item when it has been admitted | each 0 whole 1-3 | 2 x run = waits, order = take1, permits 1,
    run = waits, order = make1 run1 take2, finish 1, run = 1 waits, order = end1 drop1 make2 run2 take3, finish 3, run = waits,
    finish 2, run = 2 3 end
an empty stream asks for nothing | 0 whole none | run = end
an open stream ends later        | 2 open 1-2 | run = waits, finish 1, run = 1 waits, end, run = waits, finish 2, run = 2 end

# The end.
a drop gives all permits back and leaves the queue | buffer 3 open 1-9 | run = waits, free = 0, waiting = 1, acquire, drop,
    dropped = 1 2 3 4, acquired = yes
a drop of work that is created late | each 3 open 1-9 | run = waits, free = 0, waiting = 1, acquire, drop, dropped = 1 2 3,
    acquired = yes
work is finished before the error | 2 open 1-9 | run = waits, log = take1 run1 take2 run2 take3, close, woken = 1, run = waits,
    finish 2, woken = 1, run = 2 waits, finish 1, woken = 1, run = 1 Closed, free = 2
it is over after the error       | buffer 1 open 1-2 | run = waits, close, finish 1, next = 1, over = no, next = Closed, over = yes
the refused work is dropped at once | buffer 2 open 1-9 | run = waits, close, run = waits, dropped = 3
no work is created of a refused item | each 2 open 1-9 | run = waits, close, run = waits, dropped, finish 1-2, run = 1 2 Closed,
    dropped = 1 2
without running work the error comes at once | buffer 1 whole 1-3 | close, run = Closed, log = take1 drop1
without any work the error comes at once | each 1 whole 1-3 | close, run = Closed, log = take1
closing when all have been started is no error | 2 whole 1-2 | run = waits, close, finish 1-2, run = 1 2 end
closing does not concern an empty stream | 2 whole none | close, run = end
closing while the stream has nothing refuses the next item | 1 open none | run = waits, close, woken = 0, run = waits, supply 1,
    run = Closed

# Panics.
work that panics gives its permit back and the rest goes on | 2 whole 0-5 | panics 2, finish 0-5, run = 0 1 panics, free = 2,
    run = 3 4 5 end
creating work that panics gives the permit back | 3 whole 1-3 | fails-to-make 2, run = panics, free = 2, run = waits, finish 1,
    finish 3, run = 1 3 end
a panic that drops the adapter gives all permits back | 2 whole 1-3 | run = waits, panics 2, finish 2, run = panics, drop,
    free = 2
";

/// Any calls, as often as the number says. Those that name nobody do nothing.
const RANDOM: &str =
    "4 more 1..4, 8 finish-any #, 1 permits 0..5, 2 take, 2 give-back, 8 run-woken, 1 run";

/// Items by their numbers, such as `3`, `1-5` and `none`.
struct Items(Vec<usize>);

impl FromStr for Items {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.parse::<usize>().map_err(|_| ());
        Ok(Self((number(first)?..=number(last)?).collect()))
    }
}

/// The running items, according to the log.
#[derive(Default)]
struct Running {
    items: Vec<usize>,
    taken: usize,
    started: usize,
}

impl Running {
    fn read(&mut self, events: &[String]) {
        for event in events {
            let (event, item) = event.rsplit_once(' ').expect("two words");
            let item = item.parse().unwrap_or(usize::MAX);
            match event {
                "take" => self.taken += 1,
                "run" => {
                    self.started += 1;
                    self.items.push(item);
                }
                "end" => self.items.retain(|&other| other != item),
                _ => {}
            }
        }
    }
}

/// Either adapter as a stream, which yields nothing of the results of `for_each_limited` but its end.
type Adapter = Pin<Box<dyn FusedStream<Item = Result<Option<usize>, AcquireError>>>>;

/// The wait of another caller.
type Other = Pin<Box<dyn Future<Output = Result<OwnedPermit, AcquireError>>>>;

struct World {
    jobs: Jobs,
    slots: Arc<Semaphore>,
    adapter: Option<Polled<Adapter>>,
    /// How often it had been woken when it was last polled.
    seen: usize,
    /// The number of items of all calls of `more`.
    supplied: usize,
    events: Vec<String>,
    running: Running,
    others: Vec<Waiter<Other>>,
    held: Vec<OwnedPermit>,
}

impl World {
    fn new(name: &str, permits: usize, whole: bool, items: Vec<usize>) -> Self {
        let (jobs, slots) = (Jobs::default(), Arc::new(Semaphore::new(permits)));
        let throttle = Arc::clone(&slots);
        let source = if whole {
            jobs.whole(items)
        } else {
            jobs.source(items)
        };
        let worker = jobs.clone();
        let adapter: Adapter = if name == "buffer" {
            let results = source.map(move |item| worker.work(item));
            Box::pin(results.buffer_limited(throttle).map_ok(Some))
        } else {
            let work = move |item| {
                let jobs = worker.clone();
                worker
                    .work(item)
                    .map(move |item| jobs.state.borrow_mut().results.push(item))
            };
            Box::pin(stream::once(source.for_each_limited(throttle, work)).map_ok(|()| None))
        };
        Self {
            jobs,
            slots,
            adapter: Some(Polled::new(adapter)),
            seen: 0,
            supplied: 0,
            events: Vec::new(),
            running: Running::default(),
            others: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Does a call:
    ///
    /// - `run`: polls until it waits and has not woken itself meanwhile, and shows the results and `waits`, `end`, `panics`
    ///   or an error; `run-woken`: the same if it was woken; `next`: one poll;
    /// - `supply`, `more`, `end`: further items of the stream, or its end; `finish` items, and `finish-any` that runs;
    /// - `panics`, `fails-to-make`: the work on an item panics, or its creation;
    /// - `permits`, `close`, `acquire` by another caller who waits, `take`, `give-back`; `drop` of the adapter;
    /// - `over`: whether the adapter has ended;
    /// - `log`: what was taken, run, ended and dropped; `order`: also what was created; `dropped`: what was dropped, sorted.
    fn call(&mut self, name: &str, words: &mut Words<'_>) -> String {
        match name {
            "run" => return self.poll(false),
            "run-woken" if self.woken() > 0 => return self.poll(false),
            "next" => return self.poll(true),
            "supply" => self.jobs.supply(words.parse::<Items>().0),
            "more" => {
                let first = self.supplied;
                self.supplied += words.parse::<usize>();
                self.jobs.supply(first..self.supplied);
            }
            "end" => self.jobs.end(),
            "finish" => (words.parse::<Items>().0.iter()).for_each(|&item| self.jobs.finish(item)),
            "finish-any" => {
                let which: usize = words.parse();
                if let Some(at) = which.checked_rem(self.running.items.len()) {
                    self.jobs.finish(self.running.items[at]);
                }
            }
            "panics" => self.jobs.state.borrow_mut().panics = words.maybe(),
            "fails-to-make" => self.jobs.state.borrow_mut().fails_to_make = words.maybe(),
            "permits" => self.slots.set_permits(words.parse()),
            "close" => self.slots.close(),
            "acquire" => {
                let other: Other = Box::pin(Arc::clone(&self.slots).acquire_owned());
                self.others.push(Waiter::parked(other));
            }
            "acquired" => {
                let polled = self.others[0].poll();
                return if polled.is_ready() { "yes" } else { "no" }.into();
            }
            "take" => self
                .held
                .extend(Arc::clone(&self.slots).try_acquire_owned()),
            "give-back" => drop(self.held.pop()),
            "drop" => drop(self.adapter.take()),
            "over" => {
                let adapter = self.adapter.as_ref().expect("an adapter");
                return if adapter.stream.is_terminated() {
                    "yes"
                } else {
                    "no"
                }
                .into();
            }
            "free" => return self.slots.available_permits().to_string(),
            "waiting" => return self.slots.snapshot().waiting.to_string(),
            "woken" => return self.woken().to_string(),
            "log" | "order" => {
                self.read();
                let mut events = std::mem::take(&mut self.events);
                events.retain(|event| name == "order" || !event.starts_with("make"));
                events.retain(|event| event != "no more");
                return events.join(",").replace(' ', "").replace(',', " ");
            }
            "dropped" => {
                self.read();
                let mut events = std::mem::take(&mut self.events);
                events.sort();
                let dropped = events
                    .iter()
                    .filter_map(|event| event.strip_prefix("drop "));
                return dropped.collect::<Vec<_>>().join(" ");
            }
            "run-woken" => {}
            name => panic!("no call: {name}"),
        }
        String::new()
    }

    /// Returns how often the adapter was woken since it was last polled.
    fn woken(&self) -> usize {
        self.adapter.as_ref().expect("an adapter").wakes() - self.seen
    }

    fn poll(&mut self, once: bool) -> String {
        let adapter = self.adapter.as_mut().expect("an adapter");
        let mut shown: Vec<String> = Vec::new();
        loop {
            self.seen = adapter.wakes();
            let polled = catch_unwind(AssertUnwindSafe(|| adapter.poll()));
            let results = std::mem::take(&mut self.jobs.state.borrow_mut().results);
            shown.extend(results.iter().map(usize::to_string));
            match polled {
                Ok(Poll::Ready(Some(Ok(result)))) => {
                    shown.extend(result.map(|item| item.to_string()));
                }
                Ok(Poll::Ready(Some(Err(error)))) => shown.push(format!("{:?}", error.kind())),
                Ok(Poll::Ready(None)) => shown.push("end".into()),
                Ok(Poll::Pending) if adapter.wakes() > self.seen => continue,
                Ok(Poll::Pending) => shown.push("waits".into()),
                Err(_) => shown.push("panics".into()),
            }
            let last = shown.last().map_or("", String::as_str);
            if once || last.starts_with(char::is_alphabetic) {
                break;
            }
        }
        let last = shown.last().expect("something is shown").as_str();
        if last == "end" || last == "Closed" {
            // It stays ended, and does not poll its stream again.
            let polls = self.jobs.source_polls();
            assert!(adapter.stream.is_terminated() && adapter.next().is_none());
            assert!(adapter.stream.is_terminated());
            assert_eq!(self.jobs.source_polls(), polls);
        } else if last == "waits" {
            assert!(!adapter.stream.is_terminated());
        }
        let shown = shown.join(" ");
        self.read();
        shown
    }

    /// Reads the log: at most one item is outside, taken and not started.
    fn read(&mut self) {
        let events = self.jobs.log.take();
        self.running.read(&events);
        assert!(
            self.running.taken <= self.running.started + 1,
            "more than one is outside"
        );
        self.events.extend(events);
    }
}

fn run(row: &Row, name: &str) -> Result<(), String> {
    let mut words = Words::new(&row.setup);
    let only = ["buffer", "each"].into_iter().find(|only| words.says(only));
    if only.is_some_and(|only| only != name) {
        return Ok(());
    }
    let permits = words.parse();
    let whole = words.says("whole") || !words.says("open");
    let mut world = World::new(name, permits, whole, words.parse::<Items>().0);
    follow(row, |name, words| world.call(name, words))
        .map_err(|error| format!("{name}: {error}"))?;
    let World {
        slots,
        adapter,
        others,
        ..
    } = world;
    drop((adapter, others));
    assert_at_rest(&slots, slots.permits());
    Ok(())
}

#[test]
fn adapters_run_as_the_rows_say() {
    for name in ["buffer", "each"] {
        check(ROWS, |row| run(row, name));
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_item_is_finished_by_wakes_alone(
        limit in 0..4_usize,
        calls in at_random(RANDOM, 80),
        name in prop::sample::select(vec!["buffer", "each"]),
    ) {
        let mut world = World::new(name, limit, false, Vec::new());
        world.poll(false);
        let mut results = String::new();
        for text in calls {
            call(&text, |name, words| {
                results += &world.call(name, words);
                results += " ";
                Ok(())
            })?;
        }
        // From here on it is polled only after a wake, and must reach its end that way.
        world.held.clear();
        world.slots.set_permits(limit.max(1));
        world.jobs.end();
        (0..world.supplied).for_each(|item| world.jobs.finish(item));
        prop_assert!(world.woken() > 0, "it was not woken");
        results += &world.poll(false);
        prop_assert!(results.ends_with("end"), "it was forgotten");
        let mut yielded: Vec<usize> = results.split(' ').filter_map(|word| word.parse().ok()).collect();
        yielded.sort_unstable();
        prop_assert_eq!(yielded, (0..world.supplied).collect::<Vec<_>>());
        let started: Vec<_> = world.events.iter().filter_map(|event| event.strip_prefix("run ")).collect();
        prop_assert!(started.iter().map(|item| item.parse()).eq((0..world.supplied).map(Ok)));
        drop(world.adapter);
        assert_at_rest(&world.slots, limit.max(1));
    }

    /// Both adapters, and the one of futures, run the same items at the same time.
    #[test]
    fn runs_what_a_number_in_place_of_the_throttle_would(
        limit in 1..4_usize,
        items in 0..12_usize,
        order in prop::collection::vec(any::<Index>(), 12),
    ) {
        let slots = Semaphore::new(limit);
        let (ours, theirs) = (Jobs::default(), Jobs::default());
        let work = |jobs: &Jobs| {
            let jobs = jobs.clone();
            move |item| jobs.silent_work(item)
        };
        let mut limited = Waiter::new(ours.whole(0..items).for_each_limited(&slots, work(&ours)));
        let concurrent = theirs.whole(0..items).for_each_concurrent(limit, work(&theirs));
        let mut concurrent = Waiter::new(concurrent);
        let (mut running, mut of_theirs) = (Running::default(), Running::default());
        for which in order {
            let done = (limited.is_pending(), concurrent.is_pending());
            let events = [ours.log.take(), theirs.log.take()];
            for (log, running) in events.iter().zip([&mut running, &mut of_theirs]) {
                running.read(log);
            }
            prop_assert_eq!(done.0, done.1);
            prop_assert_eq!(&running.items, &of_theirs.items);
            if !done.0 {
                break;
            }
            let item = running.items[which.index(running.items.len())];
            ours.finish(item);
            theirs.finish(item);
        }
    }
}
