//! Semaphores against the most obvious model of them: a vector of waiters and two integers.
//!
//! The steps of a table or random steps run on both, and after each step the observable state is compared:
//! grants, refusals and their values, wakes and their numbers, free permits, waiters. Each waker uses the
//! semaphore when it is woken and when it is dropped, and would deadlock under its lock.

mod naive;
mod scenarios;
mod subject;

use std::cell::Cell;
use std::mem;
use std::sync::Arc;
#[cfg(feature = "tokio")]
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, contextualize_config};
#[cfg(feature = "tokio")]
use tokio::runtime::Runtime;
use tollgate::time::ManualClock;
#[cfg(feature = "tokio")]
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock, ErrorKind};
use tollgate_adaptive::{AdaptiveSemaphore, Shared};

use self::naive::{Answer, Ends, Idle, Model};
use self::subject::{Boxed, Erratic, Held, Subject, borrowed};
use crate::support::Waiter;
use crate::support::cases::cases;
use crate::support::random::Random;
use crate::support::scenarios::{Names, Words, at_random, call};

type Tested = Result<(), TestCaseError>;

struct World<S: Subject> {
    semaphore: S,
    names: Names,
    model: Model,
    /// Names in the model, and uncollected futures.
    waiters: Vec<(usize, Waiter<Boxed<S::Permit>>)>,
    permits: Vec<S::Permit>,
    idlers: Vec<Waiter<Boxed<()>>>,
    ends: TokensAndTime,
    /// The clock of a semaphore whose controller sets its limit when a permit returns, and that limit.
    adapts: Option<(ManualClock, Arc<AtomicUsize>)>,
    /// The number of calls of wakers that have begun and not ended. Each waker holds it, too.
    calling: Arc<AtomicUsize>,
    /// A permit was leaked, so not everything comes back.
    leaked: bool,
}

impl<S: Subject> World<S> {
    fn new(semaphore: S, limit: usize, bound: Option<usize>, names: Names) -> Self {
        Self {
            semaphore,
            names,
            model: Model::new(limit, bound),
            waiters: Vec::new(),
            permits: Vec::new(),
            idlers: Vec::new(),
            ends: TokensAndTime::default(),
            adapts: None,
            calling: Arc::default(),
            leaked: false,
        }
    }

    /// Runs a call on both, and compares them. The calls are described in `scenarios.rs`.
    fn step(&mut self, text: &str) -> Tested {
        call(text, |call, words| self.call(call, words))?;
        self.compare()
    }

    fn call(&mut self, call: &str, words: &mut Words<'_>) -> Tested {
        match call {
            "try" => {
                let cost = words.parse();
                let tried = self.semaphore.try_many(cost);
                let answer = self.model.try_acquire(cost as usize);
                prop_assert_eq!(Answer::of(&tried), answer);
                self.permits.extend(tried);
            }
            "acquire" => self.acquire(words.parse(), Ends::of(words))?,
            "crowd" => {
                let (count, cost) = (words.parse(), words.parse());
                for _ in 0..count {
                    self.acquire(cost, Ends::default())?;
                }
            }
            "poll" => self.poll(self.names.choose(words, &self.waiters)?)?,
            "drop" => self.drop_waiter(self.names.choose(words, &self.waiters)?),
            "drop-half" => {
                for at in (0..self.waiters.len()).rev().step_by(2) {
                    self.drop_waiter(at);
                }
            }
            "leak" => {
                let at = self.names.choose(words, &self.waiters)?;
                mem::forget(self.waiters.remove(at).1.into_future());
                self.leaked = true;
            }
            "release" => self.release(self.names.choose(words, &self.permits)?),
            "ignore" | "overload" => {
                let at = self.names.choose(words, &self.permits)?;
                self.permits.remove(at).end(call);
                self.returned(1);
            }
            "release-all" => (0..self.permits.len()).for_each(|_| self.release(0)),
            "leak-permit" => {
                let at = self.names.choose(words, &self.permits)?;
                mem::forget(self.permits.remove(at));
                self.leaked = true;
            }
            "split" => {
                let at = self.names.choose(words, &self.permits)?;
                let (count, before) = (words.parse(), self.permits[at].count());
                let part = self.permits[at].split(count);
                prop_assert_eq!(part.is_some(), count <= before);
                let parted = part.as_ref().map_or(0, Held::count);
                prop_assert_eq!(self.permits[at].count() + parted, before);
                self.permits.extend(part);
            }
            "merge" => {
                let into = self.names.choose(words, &self.permits)?;
                let from = self.names.choose(words, &self.permits)?;
                if into == from {
                    return Ok(());
                }
                let sum = self.permits[into].count() + self.permits[from].count();
                let merged = self.permits.remove(from);
                let into = &mut self.permits[into - usize::from(from < into)];
                into.merge(merged);
                prop_assert_eq!(into.count(), sum);
            }
            "forget" => {
                let at = self.names.choose(words, &self.permits)?;
                let permit = self.permits.remove(at);
                self.model.forget(permit.count());
                permit.forget();
            }
            "limit" => {
                let limit = words.parse();
                self.semaphore.set_limit(limit);
                self.model.set_permits(limit);
            }
            "add" => {
                let more = words.parse();
                self.semaphore.add(more);
                self.model.set_permits(self.model.limit + more);
            }
            "take-free" => {
                let permits = words.parse();
                let forgotten = self.semaphore.semaphore().forget_permits(permits);
                prop_assert_eq!(forgotten, self.model.forget_free(permits));
            }
            "reject" => {
                self.semaphore.semaphore().reject_impossible();
                self.model.reject_impossible();
            }
            "close" => {
                self.semaphore.close();
                self.model.close();
            }
            "idle" => {
                let ends = Ends::of(words);
                let wait = self.ends.around(self.semaphore.idle(), &ends);
                self.idlers.push(Waiter::new(wait));
                self.model.wait_idle(ends);
                self.poll_idler(self.idlers.len() - 1)?;
            }
            "poll-idle" => self.poll_idler(self.names.choose(words, &self.idlers)?)?,
            "drop-idle" => {
                let at = self.names.choose(words, &self.idlers)?;
                drop(self.idlers.remove(at));
                self.model.idlers.remove(at);
            }
            "leak-idle" => {
                let at = self.names.choose(words, &self.idlers)?;
                mem::forget(self.idlers.remove(at).into_future());
                self.model.idlers.remove(at);
            }
            "cancel" => {
                let token: String = words.parse();
                self.ends.cancel(&token);
                self.model.cancelled.push(token);
            }
            "advance" => {
                let time = words.parse();
                match &self.adapts {
                    Some((clock, _)) => clock.advance(Duration::from_millis(time)),
                    None => self.ends.advance(time),
                }
                self.model.now += time;
            }
            // Both have been compared with the observable state.
            "free" => prop_assert_eq!(self.model.available(), words.parse()),
            "waiting" => prop_assert_eq!(self.model.queue.len(), words.parse()),
            _ => panic!("no call: {call:?}"),
        }
        Ok(())
    }

    /// Returns a function that inspects the semaphore, sets its limit to the current one, and polls a wait for
    /// idleness once: each takes the lock.
    fn look(&self) -> impl Fn() + Clone + Send + Sync + 'static {
        let (semaphore, calling) = (self.semaphore.clone(), Arc::clone(&self.calling));
        move || {
            // A waker whose call has panicked is dropped; two panics at once would end the process.
            if thread::panicking() {
                return;
            }
            calling.fetch_add(1, Ordering::SeqCst);
            let ([limit, ..], _) = semaphore.seen();
            if S::has("limit") {
                semaphore.set_limit(limit.expect("it tells") as usize);
            }
            if S::has("idle") {
                let _ = Waiter::new(semaphore.idle()).poll();
            }
            calling.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn acquire(&mut self, cost: u64, ends: Ends) -> Tested {
        let wait = self.semaphore.enter_many(cost);
        let mut waiter = Waiter::new(self.ends.around(wait, &ends));
        let name = self.model.acquire(cost as usize, ends);
        let polled = waiter.poll_calling(self.look());
        // A caller that gets its answer at the first poll is never woken.
        let Some(answer) = self.model.callers[name].answer else {
            prop_assert!(polled.is_pending());
            self.waiters.push((name, waiter));
            return Ok(());
        };
        let Poll::Ready(result) = polled else {
            return Err(TestCaseError::fail("it waits"));
        };
        prop_assert_eq!((Answer::of(&result), waiter.wakes()), (answer, 0));
        check_text(&result, "cancelled before waiting")?;
        self.permits.extend(result);
        Ok(())
    }

    fn poll(&mut self, at: usize) -> Tested {
        let (name, look) = (self.waiters[at].0, self.look());
        let Some(answer) = self.model.told(name) else {
            let waiter = &mut self.waiters[at].1;
            prop_assert!(waiter.poll_with(Waker::noop()).is_pending());
            prop_assert!(waiter.poll_calling(look).is_pending());
            return Ok(());
        };
        let (_, mut waiter) = self.waiters.remove(at);
        let Poll::Ready(result) = waiter.poll() else {
            return Err(TestCaseError::fail("not ready, although it was answered"));
        };
        prop_assert_eq!(Answer::of(&result), answer);
        check_text(&result, "cancelled while waiting")?;
        match &result {
            Ok(permit) => prop_assert_eq!(permit.count(), self.model.callers[name].cost),
            // It leaves then, although the future still exists.
            Err(_) => self.model.drop_caller(name),
        }
        self.compare()?;
        self.permits.extend(result);
        Ok(())
    }

    fn drop_waiter(&mut self, at: usize) {
        let (name, waiter) = self.waiters.remove(at);
        drop(waiter);
        self.model.drop_caller(name);
    }

    fn release(&mut self, at: usize) {
        let permit = self.permits.remove(at);
        let count = permit.count();
        drop(permit);
        self.returned(count);
    }

    fn returned(&mut self, count: usize) {
        // Its controller set the limit before the permit came back.
        if let Some((_, limit)) = &self.adapts {
            self.model.set_permits(limit.load(Ordering::Relaxed));
        }
        self.model.release(count);
    }

    fn poll_idler(&mut self, at: usize) -> Tested {
        let (idle, ends) = &self.model.idlers[at];
        let expected = match self.model.ended(ends) {
            Some(Answer::Cancelled) => Some(Answer::Cancelled),
            _ if *idle == Idle::Woken => Some(Answer::Granted),
            ended => ended,
        };
        let look = self.look();
        let polled = match self.idlers[at].poll_calling(look) {
            Poll::Ready(over) => Some(Answer::of(&over)),
            Poll::Pending => None,
        };
        prop_assert_eq!(polled, expected);
        if polled.is_some() {
            // Polled again it would wait again.
            self.idlers.remove(at);
            self.model.idlers.remove(at);
        }
        Ok(())
    }

    /// Compares the whole observable state.
    fn compare(&mut self) -> Tested {
        let (numbers, is_closed) = self.semaphore.seen();
        let model = &mut self.model;
        let waiting = model.queue.len();
        let expected = [model.limit, model.available(), model.held, waiting].map(|one| one as u64);
        for (seen, expected) in numbers.into_iter().zip(expected) {
            let seen = seen.unwrap_or(expected);
            prop_assert_eq!(seen, expected, "{:?}", numbers);
        }
        prop_assert_eq!(is_closed.unwrap_or(model.closed), model.closed);
        for (name, waiter) in &self.waiters {
            let caller = &model.callers[*name];
            let ended = usize::from(model.ended(&caller.ends).is_some());
            let most = usize::from(caller.answer.is_some()) + ended;
            prop_assert!(
                (most.min(1)..=most).contains(&waiter.wakes()),
                "caller {name}"
            );
        }
        let ended = |(_, ends): &(Idle, Ends)| usize::from(model.ended(ends).is_some());
        let ended: Vec<_> = model.idlers.iter().map(ended).collect();
        for ((waiter, (idle, _)), ended) in self.idlers.iter().zip(&mut model.idlers).zip(ended) {
            if *idle == Idle::Perhaps {
                *idle = match waiter.wakes() {
                    0 => Idle::Nothing,
                    _ => Idle::Woken,
                };
            }
            let most = usize::from(*idle == Idle::Woken) + ended;
            prop_assert!((most.min(1)..=most).contains(&waiter.wakes()));
        }
        let held: usize = self.permits.iter().map(Held::count).sum();
        prop_assert!(held <= model.held);
        Ok(())
    }

    /// Runs the calls on both, compares after each, and lets every caller leave at the end.
    fn run(mut self, calls: &[String]) -> Tested {
        for call in calls {
            self.step(call)?;
        }
        self.leave()
    }

    /// Lets every caller leave, in no order, and checks that everything has come back.
    fn leave(mut self) -> Tested {
        while !(self.waiters.is_empty() && self.permits.is_empty()) {
            if !self.waiters.is_empty() {
                self.drop_waiter(self.waiters.len() / 2);
                self.compare()?;
            }
            if !self.permits.is_empty() {
                self.release(self.permits.len() / 2);
                self.compare()?;
            }
        }
        self.idlers.clear();
        // A panic of a waker is contained.
        let calling = self.calling.load(Ordering::SeqCst);
        prop_assert_eq!(calling, 0, "calls of wakers have panicked");
        if self.leaked {
            return Ok(());
        }
        let wakers = Arc::strong_count(&self.calling) - 1;
        prop_assert_eq!(wakers, 0, "wakers were not dropped, and have not called");
        prop_assert_eq!(self.model.held, 0);
        let idle = |(idle, _): &(Idle, Ends)| *idle == Idle::Woken;
        prop_assert!(self.model.idlers.iter().all(idle));
        // The whole limit is available, and no more.
        let tries = (0..=self.model.limit).map(|_| self.semaphore.try_enter().ok());
        let permits: Vec<_> = tries.flatten().collect();
        let limit = if self.model.closed {
            0
        } else {
            self.model.limit
        };
        prop_assert_eq!(permits.len(), limit);
        Ok(())
    }
}

/// Checks that a refusal is one lower-case phrase, and that a cancellation says whether the call
/// had waited.
fn check_text<P>(result: &Result<P, AcquireError>, cancelled: &str) -> Tested {
    let Err(error) = result else {
        return Ok(());
    };
    let text = error.to_string();
    let is_phrase = text.starts_with(char::is_lowercase) && !text.ends_with('.');
    let is_right = error.kind() != ErrorKind::Cancelled || text == cancelled;
    prop_assert!(is_phrase && is_right, "{text}");
    let never = [ErrorKind::Closed, ErrorKind::ExceedsCapacity].contains(&error.kind());
    let after = never.then_some(Duration::MAX);
    prop_assert_eq!((error.retry_after(), error.part()), (after, None));
    Ok(())
}

/// The tokens of a row, and the time of the runtime that it runs in.
#[derive(Default)]
struct TokensAndTime {
    #[cfg(feature = "tokio")]
    tokens: std::collections::HashMap<String, tokio_util::sync::CancellationToken>,
}

/// A runtime whose time the rows with times use.
#[cfg(feature = "tokio")]
static RUNTIME: LazyLock<Runtime> = LazyLock::new(crate::support::paused_runtime);

#[cfg(feature = "tokio")]
impl TokensAndTime {
    fn token(&mut self, name: &str) -> tokio_util::sync::CancellationToken {
        if let Some(token) = self.tokens.get(name) {
            return token.clone();
        }
        let token = match name.rsplit_once('.') {
            Some((parent, _)) => self.token(parent).child_token(),
            None => tokio_util::sync::CancellationToken::new(),
        };
        self.tokens.insert(name.to_owned(), token.clone());
        token
    }

    /// Wraps a wait in tokens and timeouts.
    fn around<P: 'static>(&mut self, mut wait: Boxed<P>, ends: &Ends) -> Boxed<P> {
        for is_time in [ends.is_time_inside, !ends.is_time_inside] {
            for time in ends.within.iter().filter(|_| is_time) {
                let time = Duration::from_millis(*time);
                wait = Box::pin(Waiting::new(wait).timeout(time));
            }
            for name in ends.tokens.iter().filter(|_| !is_time) {
                wait = Box::pin(Waiting::new(wait).cancel_on(self.token(name)));
            }
        }
        wait
    }

    fn cancel(&mut self, name: &str) {
        self.token(name).cancel();
    }

    fn advance(&self, time: u64) {
        let time = Duration::from_millis(time);
        RUNTIME.block_on(tokio::time::advance(time));
    }
}

#[cfg(not(feature = "tokio"))]
impl TokensAndTime {
    fn around<P>(&self, wait: Boxed<P>, ends: &Ends) -> Boxed<P> {
        assert_eq!(*ends, Ends::default());
        wait
    }

    fn cancel(&self, _: &str) {
        unreachable!()
    }

    fn advance(&self, _: u64) {
        unreachable!()
    }
}

/// Small numbers, so that calls interfere with each other.
const CALLS: &str = "12 try 0..5, 24 acquire 0..5, 3 crowd 1..40 1..3, 18 poll #, 15 drop #, 3 drop-half, \
    18 release #, 3 release-all, 6 split # 0..4, 6 merge # #, 3 forget #, 6 limit 0..6, 3 limit 5..60, \
    3 add 0..3, 3 take-free 0..3, 3 reject, 6 idle, 6 poll-idle #, 3 drop-idle #, 1 close";

const CALLS_OF_ADAPTIVE: &str = "60 try 1, 90 acquire 1, 60 poll #, 20 drop #, 120 release #, 20 ignore #, \
    20 overload #, 50 advance 0..1000, 9 idle, 9 poll-idle #, 6 drop-idle #, 1 close";

fn run<S: Subject>(
    make: impl Fn(usize, Option<usize>) -> S,
    (limit, bound): (usize, Option<usize>),
    names: Names,
    calls: &[String],
) -> Tested {
    World::new(make(limit, bound), limit, bound, names).run(calls)
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn agrees_with_a_vector_of_waiters(
        limit in 0..5_usize,
        bound in prop::option::weighted(0.25, 0..4_usize),
        calls in at_random(CALLS, 80),
    ) {
        run(borrowed, (limit, bound), Names::AtRandom, &calls)?;
    }
}

#[test]
fn adaptive_semaphore_agrees_with_it_whatever_its_controller_wants() {
    let sums = Cell::new((0, 0, 0));
    let calls = at_random(CALLS_OF_ADAPTIVE, 300);
    proptest!(contextualize_config(cases(300)), |(seed in any::<u64>(), calls in calls)| {
        let (clock, limit) = (Clock::manual(), Arc::new(AtomicUsize::new(3)));
        let erratic = Erratic(Random::new(seed), Arc::clone(&limit));
        let semaphore = AdaptiveSemaphore::new(erratic).limits(1..=12).max_waiters(20);
        let semaphore = Shared::from(semaphore.clock(&clock));
        let mut world = World::new(semaphore.clone(), 3, Some(20), Names::AtRandom);
        world.adapts = Some((clock, limit));
        world.run(&calls)?;
        let seen = semaphore.snapshot();
        prop_assert_eq!(seen.window.limit().round() as u64, seen.permits.limit);
        let (made, windows, rejected) = sums.get();
        let made = made + calls.len() as u64;
        sums.set((made, windows + seen.windows, rejected + seen.rejected_targets));
    });
    let (made, windows, rejected) = sums.get();
    assert!(windows > made / 100 && rejected > 0, "{:?}", sums.get());
}
