//! Sequences of calls to a limiter, one a row, on a manual clock. A row states an expectation where its
//! promise is about a number; and where the [reference](crate::reference) knows all of its calls, the same
//! calls go to a limiter and the reference, and the observable state is compared after each call.
//!
//! The set-up names the algorithms, `all` or `whole` (those that admit the whole count at once), or none for
//! the default; then the quota; and options, each after a semicolon. The default cost is 1, and times begin
//! with the clock. Waiters, charges and holds are named by their positions from 0.

mod tables;

use std::cell::RefCell;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tollgate::rate::{Charge, Hold, LocalLimiter, QuotaChange, Reservation};
use tollgate::time::ManualClock;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Algorithm, Clock, ErrorKind, Quota, RateLimiter};

use crate::reference::World;
use crate::setup::TICK;
use crate::support::foreign::calls_when_woken;
use crate::support::reference;
use crate::support::scenarios::{RetryAfter, Row, Time, Words, chosen, rows};
use crate::support::{Waiter, kind, poll_once};

/// Runs each row of a table, and names the failed rows at the end. The reference must know all calls of
/// this many rows.
#[track_caller]
pub(crate) fn check(table: &str, known: usize) {
    let (mut failed, mut by_reference) = (Vec::new(), 0);
    for row in rows(table) {
        let (algorithms, setup) = setup(&row.setup);
        let calls: Option<Vec<_>> = row.calls(calls).into_iter().collect();
        let calls = calls
            .filter(|_| setup.is_counted)
            .map(|calls| calls.concat());
        by_reference += usize::from(calls.is_some());
        for algorithm in algorithms {
            let mut setup = setup;
            setup.limiter.algorithm = algorithm;
            let went = catch_unwind(AssertUnwindSafe(|| {
                run_row(&row, &setup);
                let mut world = World::new(setup.limiter);
                let mut calls = calls.iter().flatten();
                let said = world.call(&format!("local {}", setup.batch));
                said.and_then(|()| calls.try_for_each(|text| world.call(text)))
            }));
            match went {
                Ok(Ok(())) => {}
                Ok(Err(difference)) => failed.push(format!("{}: {difference}", row.name)),
                Err(_) => failed.push(format!("{}, by {algorithm}", row.name)),
            }
        }
    }
    assert!(failed.is_empty(), "rows failed: {}", failed.join("\n"));
    if chosen().is_none() {
        assert_eq!(by_reference, known, "rows whose calls the reference knows");
    }
}

/// A limiter, the batch of its local handle, and whether the reference can count its calls one by one.
#[derive(Clone, Copy)]
struct Setup {
    limiter: reference::Setup,
    batch: u64,
    is_counted: bool,
}

fn run_row(row: &Row, setup: &Setup) {
    let told = RefCell::new(Told::new(setup));
    row.calls(|call, words| told.borrow_mut().call(call, words));
    // A failure in a waker is detected when its waiter is polled.
    let is_slow = |asker: &Asker| matches!(asker, Asker::Slow(..));
    assert!(!told.into_inner().askers.iter().any(is_slow));
}

/// Returns the algorithms of a set-up, and the rest of it.
fn setup(text: &str) -> (Vec<Algorithm>, Setup) {
    let mut parts = text.split(';').map(str::trim);
    let limiter: Vec<_> = parts.next().unwrap_or_default().split(' ').collect();
    let mut algorithms = Vec::new();
    let mut words = limiter.into_iter().peekable();
    let thousand = Quota::per_second(1000).burst(1000);
    let is_whole = |it: &Algorithm| it.batch(thousand).max_burst() == 1000;
    let is_quota = |word: &&str| {
        word.parse::<Algorithm>().is_err() && !["all", "whole", "word"].contains(word)
    };
    while let Some(word) = words.next_if(|word| !is_quota(word)) {
        match word {
            "all" => algorithms.extend(Algorithm::all()),
            "whole" => algorithms.extend(Algorithm::all().iter().filter(|it| is_whole(it))),
            "word" => {
                let whole = Algorithm::all().iter().filter(|it| is_whole(it));
                algorithms.extend(whole.filter(|it| it.keeps_a_word()));
            }
            _ => algorithms.push(word.parse().expect("an algorithm")),
        }
    }
    if algorithms.is_empty() {
        algorithms.push(Algorithm::Gcra);
    }
    let quota = words.collect::<Vec<_>>().join(" ");
    let quota = quota.parse().expect("a quota");
    let mut setup = Setup {
        limiter: reference::Setup::new(Algorithm::Gcra, quota),
        batch: 1,
        is_counted: true,
    };
    for option in parts {
        let mut words = Words::new(option);
        match words.word() {
            "batch" => setup.batch = words.parse(),
            // With values that the reference would count one by one.
            "uncounted" => setup.is_counted = false,
            option => setup.limiter.set(option, &mut words),
        }
        words.end();
    }
    (algorithms, setup)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the next word as a cost; 1 if there is none.
fn cost(words: &mut Words<'_>) -> u64 {
    if words.says("max") {
        return u64::MAX;
    }
    words.maybe().unwrap_or(1)
}

fn quota(words: &mut Words<'_>) -> Quota {
    words.rest().parse().expect("a quota")
}

type Wait = Pin<Box<dyn Future<Output = Result<Charge, AcquireError>> + Send>>;

/// A wait that is not over, or that has not been polled since.
enum Asker {
    /// With a flag: whether its grant alone wakes it.
    Future(Waiter<Wait>, bool),
    /// Its waker reports when it has finished; a waker's panic goes no further.
    Slow(Waiter<Wait>, Receiver<()>),
    Reserved(Box<Waiting<Reservation>>),
}

impl Asker {
    fn poll(&mut self) -> Poll<Result<Charge, AcquireError>> {
        match self {
            Self::Future(waiter, _) | Self::Slow(waiter, _) => waiter.poll(),
            Self::Reserved(reservation) => poll_once(&mut **reservation),
        }
    }

    /// Returns the outcome; the wait must have been woken for it, once.
    fn output(mut self) -> Result<Charge, AcquireError> {
        match &self {
            Self::Future(waiter, true) => assert_eq!(waiter.wakes(), 1),
            Self::Future(..) => {}
            Self::Slow(_, done) => done.try_recv().expect("its waker has done its call"),
            Self::Reserved(reservation) => assert_eq!(reservation.delay(), Duration::ZERO),
        }
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it still waits"),
        }
    }

    fn assert_waits(&mut self) {
        if let Self::Future(waiter, true) = self {
            assert_eq!(waiter.wakes(), 0);
        }
        assert!(self.poll().is_pending(), "it does not wait");
    }
}

/// Two limiters with the same settings, and the outcomes of the calls.
struct Told {
    clock: ManualClock,
    limiters: [Arc<RateLimiter>; 2],
    /// The one of the two that is called.
    of: usize,
    askers: Vec<Asker>,
    charges: Vec<Charge>,
    holds: Vec<Hold>,
    local: LocalLimiter,
    /// The noted available number.
    noted: u64,
}

impl Told {
    fn new(setup: &Setup) -> Self {
        let clock = Clock::manual();
        clock.advance(Duration::from_nanos(setup.limiter.start));
        let limiters = [(); 2].map(|()| Arc::new(setup.limiter.build(&clock)));
        Self {
            clock,
            local: limiters[0].local(setup.batch),
            limiters,
            of: 0,
            askers: Vec::new(),
            charges: Vec::new(),
            holds: Vec::new(),
            noted: 0,
        }
    }

    fn wait(&mut self, wait: impl Future<Output = Result<Charge, AcquireError>> + Send + 'static) {
        let waiter = Waiter::parked(Box::pin(wait) as Wait);
        self.askers.push(Asker::Future(waiter, true));
    }

    fn asker(&mut self, words: &mut Words<'_>) -> &mut Asker {
        let place: usize = words.parse();
        &mut self.askers[place]
    }

    fn take_asker(&mut self, words: &mut Words<'_>) -> Asker {
        self.askers.remove(words.parse())
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now().as_nanos())
    }

    /// Records a grant at this tick, or at any. Without a limit no clock may have been read.
    fn granted(&mut self, charge: Charge, at: Option<Duration>) {
        let charged = Duration::from_nanos(charge.at().as_nanos());
        let is_unlimited = self.limiters[self.of].quota().is_unlimited();
        if !(is_unlimited && charged.is_zero()) {
            assert_eq!(charged, at.unwrap_or(charged));
        }
        self.charges.push(charge);
    }

    #[track_caller]
    fn assert_limited<T: Debug>(&self, result: Result<T, AcquireError>, after: Option<RetryAfter>) {
        let error = result.expect_err("it was let in");
        assert_eq!(error.kind(), ErrorKind::RateLimited);
        if let Some(RetryAfter(after)) = after {
            assert_eq!(error.retry_after(), after);
        }
    }

    /// Asserts that this much is available at once, and without waiters no more.
    fn assert_left(&self, left: u64) {
        let limiter = &self.limiters[self.of];
        let snapshot = limiter.snapshot();
        assert_eq!(snapshot.available, left);
        if snapshot.waiting == 0 && !limiter.is_closed() {
            let is_admitted = |n| limiter.peek_many(n).retry_after == Some(Duration::ZERO);
            assert!(is_admitted(left));
            assert!(left == u64::MAX || !is_admitted(left + 1));
        }
    }

    /// Makes a call in the notation of the rows.
    fn call(&mut self, call: &str, words: &mut Words<'_>) {
        let limiter = Arc::clone(&self.limiters[self.of]);
        match call {
            "advance" => self.clock.advance(words.time()),
            "close" => limiter.close(),
            // The other one of two limiters.
            "other" => self.of = 1 - self.of,
            "set" => limiter.set_quota(quota(words)),
            "quota" => limiter.set_quota_with(quota(words), QuotaChange::Proportional),
            "keep" => limiter.set_quota_with(quota(words), QuotaChange::KeepSpent),
            "pause" => limiter.pause_for(words.time()),
            // A waiter whose waker takes this long; and then makes these calls, with a semicolon between
            // them; and then refunds the last charge.
            "slow" => self.slow(words.time(), None, Vec::new()),
            "busy" => {
                let (time, calls) = (words.time(), words.rest());
                self.slow(time, Some(calls), Vec::new());
            }
            "busy-refund" => {
                let last = self.charges.pop().into_iter().collect();
                self.slow(words.time(), Some("refund 0".into()), last);
            }
            "refund-nothing" => limiter.refund(limiter.try_acquire_many(0).expect("free")),
            // A server reports its count: for some charge, for the last one, or for the held ones.
            "follow" => {
                let charge = &self.charges[words.parse::<usize>()];
                limiter.follow(charge, cost(words), words.time());
            }
            "answer" => {
                let charge = self.charges.last().expect("it is answered");
                limiter.follow(charge, cost(words), words.time());
            }
            "follow-hold" => {
                let hold = &self.holds[words.parse::<usize>()];
                limiter.follow(hold.charge(), cost(words), words.time());
            }
            // A call without a wait: it is admitted, or refused with a retry time.
            "try" => {
                let cost = cost(words);
                let charge = limiter.try_acquire_many(cost).expect("it fits");
                assert_eq!(charge.cost(), cost);
                self.granted(charge, Some(self.now()));
            }
            "no" => {
                let (cost, after) = (cost(words), words.maybe::<RetryAfter>());
                if let Some(after) = &after {
                    assert_eq!(limiter.peek_many(cost).retry_after, after.of_decision());
                }
                self.assert_limited(limiter.try_acquire_many(cost), after);
            }
            // No call of this cost is admitted.
            "refuse" => {
                let (cost, why) = (cost(words), words.refusal());
                let refused = limiter.try_acquire_many(cost).expect_err("it was let in");
                let never = Some(Duration::MAX);
                assert_eq!((refused.kind(), refused.retry_after()), (why, never));
                assert_eq!(kind(limiter.reserve_many(cost)), why);
                assert_eq!(Waiter::new(limiter.acquire_many(cost)).refused(), why);
                assert_eq!(limiter.peek_many(cost).retry_after, None);
            }
            // A call that may wait: it is admitted at once, joins the queue, or finds no slot
            // there.
            "enter" => {
                let charge = Waiter::new(limiter.acquire_many(cost(words))).granted();
                self.granted(charge, Some(self.now()));
            }
            "wait" => self.wait(limiter.cost_owned(cost(words)).acquire()),
            "within" => {
                let (cost, time) = (cost(words), words.time());
                let wait = limiter.cost_owned(cost).acquire().timeout(time);
                let waiter = Waiter::parked(Box::pin(wait) as Wait);
                self.askers.push(Asker::Future(waiter, false));
            }
            "late" => {
                let (cost, time, after) = (cost(words), words.time(), words.maybe());
                let reserved = limiter.reserve_many(cost).expect("not too much");
                let (plain, reserved) = (limiter.acquire_many(cost), reserved.timeout(time));
                for refused in [reserved.wait(), plain.timeout(time).wait()] {
                    let error = refused.expect_err("it was let in");
                    assert_eq!(error.kind(), ErrorKind::TimedOut);
                    if let Some(Time(after)) = &after {
                        assert_eq!(error.retry_after(), Some(*after));
                    }
                }
            }
            "full" => {
                let refused = Waiter::new(limiter.acquire_many(cost(words))).output();
                let error = refused.expect_err("it was let in");
                assert_eq!(error.kind(), ErrorKind::QueueFull);
                assert_eq!(error.retry_after(), words.parse::<RetryAfter>().0);
            }
            "reserve" => {
                let mut reservation = limiter.reserve_many(cost(words)).expect("not too much");
                let delay = reservation.delay();
                assert_eq!(words.maybe().map_or(delay, |Time(time)| time), delay);
                match delay.is_zero().then(|| poll_once(&mut reservation)) {
                    Some(Poll::Ready(charge)) => self.granted(charge.expect("charged"), None),
                    Some(Poll::Pending) => panic!("it waits"),
                    None => self.askers.push(Asker::Reserved(Box::new(reservation))),
                }
            }
            // The outcome of a waiter.
            "granted" => {
                let charge = self.take_asker(words).output().expect("granted");
                self.granted(charge, words.maybe().map(|Time(at)| at));
            }
            "due" => {
                let mut asker = self.take_asker(words);
                self.clock.advance(words.time() - TICK);
                asker.assert_waits();
                self.clock.advance(TICK);
                let charge = asker.output().expect("granted");
                self.granted(charge, Some(self.now()));
            }
            "pending" => self.asker(words).assert_waits(),
            "refused" => assert_eq!(kind(self.take_asker(words).output()), words.refusal()),
            "drop" => drop(self.take_asker(words)),
            "leak" => match self.take_asker(words) {
                Asker::Future(waiter, _) | Asker::Slow(waiter, _) => {
                    std::mem::forget(waiter.into_future());
                }
                Asker::Reserved(reservation) => std::mem::forget(reservation),
            },
            "delay" => match self.asker(words) {
                Asker::Reserved(reservation) => assert_eq!(reservation.delay(), words.time()),
                _ => panic!("it is no reservation"),
            },
            // Forced charges, refunds, and holds.
            "charge" => self.charges.push(limiter.charge(cost(words))),
            "refund" => limiter.refund(self.charges.remove(words.parse())),
            "settle" => limiter.settle(self.charges.remove(words.parse()), cost(words)),
            "decision" => {
                let decision = limiter.decision(&self.charges[words.parse::<usize>()]);
                assert_eq!(decision.retry_after, Some(Duration::ZERO));
                let seen = (decision.remaining, decision.reset_after);
                assert_eq!(seen, (words.parse(), words.time()));
            }
            "hold" => {
                let charge = self.charges.remove(words.parse());
                let (cost, hold) = (charge.cost(), limiter.hold(charge));
                assert_eq!(hold.cost(), cost);
                self.holds.push(hold);
            }
            "used" => self.holds.remove(words.parse()).settle(cost(words)),
            "drop-hold" => drop(self.holds.remove(words.parse())),
            "forget-hold" => std::mem::forget(self.holds.remove(words.parse())),
            "resume" => limiter.resume(),
            // A charge of another limiter reports its present state.
            "stranger" => {
                let charge = &self.charges[words.parse::<usize>()];
                assert_eq!(limiter.decision(charge), limiter.peek_many(0));
            }
            // A local handle.
            "take" => self.local.try_acquire_many(cost(words)).expect("it fits"),
            "take-no" => {
                let refused = self.local.try_acquire_many(cost(words));
                self.assert_limited(refused, words.maybe());
            }
            "take-now" => Waiter::new(self.local.acquire_many(cost(words))).granted(),
            "take-due" | "take-drop" | "take-leak" => self.take_later(call, words),
            "return" => self.local.return_unused(),
            "buffered" => assert_eq!(self.local.buffered(), cost(words)),
            // The observable state.
            "left" => self.assert_left(cost(words)),
            "note" => self.noted = limiter.snapshot().available,
            "same" => assert_eq!(self.noted, limiter.snapshot().available),
            "alike" => {
                let state = |it: &Arc<RateLimiter>| (it.snapshot(), it.peek());
                assert_eq!(state(&self.limiters[0]), state(&self.limiters[1]));
            }
            "in-use" => assert_eq!(limiter.snapshot().in_use, cost(words)),
            "waiting" => assert_eq!(limiter.snapshot().waiting, words.parse::<usize>()),
            "oldest" => assert_eq!(limiter.snapshot().oldest_wait, Some(words.time())),
            "peek" => {
                let after = limiter.peek_many(cost(words)).retry_after;
                assert_eq!(after, words.parse::<RetryAfter>().of_decision());
            }
            "later" => {
                let time = words.time();
                assert!(limiter.peek().retry_after.is_none_or(|after| after > time));
            }
            "reset" => assert_eq!(limiter.peek().reset_after, words.time()),
            "paused" => {
                let left = limiter.paused_until();
                let left = left.map(|until| until.saturating_since(self.clock.now()));
                assert_eq!(left, words.maybe().map(|Time(left)| left));
            }
            _ => panic!("no call: {call:?}"),
        }
    }

    /// Lets a local handle wait for this long, and no longer: then it has its tokens, or is not
    /// asked.
    fn take_later(&mut self, call: &str, words: &mut Words<'_>) {
        let (cost, time) = (cost(words), words.time());
        let mut waiter = Waiter::parked(self.local.acquire_many(cost));
        self.clock.advance(time.saturating_sub(TICK));
        assert!(waiter.is_pending());
        self.clock.advance(time.min(TICK));
        match call {
            "take-due" => waiter.granted(),
            "take-leak" => std::mem::forget(waiter.into_future()),
            _ => drop(waiter),
        }
    }

    /// Joins the queue with a waker that takes this long, and then may make calls.
    fn slow(&mut self, takes: Duration, calls: Option<String>, charges: Vec<Charge>) {
        let inner = Self {
            clock: self.clock.clone(),
            limiters: self.limiters.clone(),
            of: self.of,
            askers: Vec::new(),
            charges,
            holds: Vec::new(),
            local: self.limiters[0].local(1),
            noted: 0,
        };
        let (inner, limiter) = (Mutex::new(inner), Arc::clone(&self.limiters[self.of]));
        let (sender, done) = channel();
        let waker = calls_when_woken(move || {
            let mut inner = inner.lock().unwrap();
            inner.clock.advance(takes);
            for call in calls.iter().flat_map(|calls| calls.split(';')) {
                let mut words = Words::new(call);
                inner.call(words.word(), &mut words);
                words.end();
            }
            sender.send(()).unwrap();
        });
        let mut waiter = Waiter::new(Box::pin(limiter.acquire_owned()) as Wait);
        assert!(waiter.poll_with(&waker).is_pending());
        self.askers.push(Asker::Slow(waiter, done));
    }
}

/// Returns the same as calls of the [reference](crate::reference), if it knows the call.
fn calls(call: &str, words: &mut Words<'_>) -> Option<Vec<String>> {
    let one = |call: &str, words: &mut Words<'_>| vec![format!("{call} {}", cost(words))];
    let item = |call: &str, words: &mut Words<'_>| vec![format!("{call} {}", words.word())];
    let calls = match call {
        "close" | "resume" => vec![call.to_owned()],
        "advance" | "pause" => item(call, words),
        "quota" => vec![format!("scale {}", words.rest())],
        "keep" => vec![format!("keep {}", words.rest())],
        "slow" => vec![format!("slow 1 {}", words.word())],
        "try" | "no" => one("try", words),
        "refuse" => {
            let cost = cost(words);
            let calls = ["try", "reserve", "wait"];
            calls.map(|call| format!("{call} {cost}")).to_vec()
        }
        "enter" | "wait" | "full" => one("wait", words),
        "within" | "late" => vec![format!("within {} {}", cost(words), words.word())],
        "reserve" => one(call, words),
        "granted" | "pending" | "refused" => item("poll", words),
        "due" => {
            let (place, time) = (words.word(), words.time());
            let early = nanos(time - TICK);
            vec![
                format!("advance {early}ns"),
                "advance 1ns".to_owned(),
                format!("poll {place}"),
            ]
        }
        "drop" => item("leave", words),
        "leak" | "refund" | "hold" | "drop-hold" | "forget-hold" => item(call, words),
        "charge" => one(call, words),
        "settle" | "used" => vec![format!("{call} {} {}", words.word(), cost(words))],
        "follow" | "follow-hold" => {
            vec![format!(
                "{call} {} {} {}",
                words.word(),
                cost(words),
                words.word()
            )]
        }
        "answer" => vec![format!("answer {} {}", cost(words), words.word())],
        "take" | "take-no" => one("take 0", words),
        "return" => vec!["return 0".to_owned()],
        "left" | "note" | "same" | "in-use" | "waiting" | "oldest" | "peek" | "later" | "reset"
        | "delay" | "decision" | "buffered" | "paused" => Vec::new(),
        _ => {
            words.rest();
            return None;
        }
    };
    // The expectation is for a single limiter.
    words.rest();
    Some(calls)
}
