//! Checks with many callers: at random, and on threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;

use tollgate::{ErrorKind, Throttle, TryThrottle};

use super::subject::{AnyPermit, AnyThrottle, Subject, Wait, assert_at_rest, fill, parked};
use crate::support::Waiter;
use crate::support::random::Random;

const LIMIT: usize = 3;

/// The waiters, and the holders.
struct Crowd {
    throttle: AnyThrottle,
    /// Each with its number of wakes at its last poll.
    waiting: Vec<(Waiter<Wait>, usize)>,
    inside: Vec<AnyPermit>,
}

impl Crowd {
    fn new(subject: &Subject) -> Self {
        Self {
            throttle: subject.with_limit(LIMIT),
            waiting: Vec::new(),
            inside: Vec::new(),
        }
    }

    /// Runs one random operation.
    fn step(&mut self, random: &mut Random) {
        match random.below(7) {
            0 => self.inside.extend(self.throttle.try_enter()),
            1 | 2 => {
                let mut waiter = Waiter::new(self.throttle.enter());
                match waiter.poll() {
                    Poll::Ready(entered) => self.inside.push(entered.unwrap()),
                    Poll::Pending => self.waiting.push((waiter, 0)),
                }
            }
            3 if !self.waiting.is_empty() => {
                let gives_up = random.below(self.waiting.len() as u32) as usize;
                drop(self.waiting.swap_remove(gives_up));
            }
            4 | 5 if !self.inside.is_empty() => {
                let leaves = random.below(self.inside.len() as u32) as usize;
                self.throttle.rollback(self.inside.swap_remove(leaves));
            }
            _ => self.run_woken(),
        }
        assert!(self.inside.len() <= LIMIT, "too many are inside");
    }

    /// Polls woken waiters, like an executor, until none is woken any more. Then nobody may wait
    /// while there is room.
    fn run_woken(&mut self) {
        let woken = |(waiter, seen): &(Waiter<_>, usize)| waiter.wakes() != *seen;
        while let Some(at) = self.waiting.iter().position(woken) {
            let (waiter, seen) = &mut self.waiting[at];
            *seen = waiter.wakes();
            if let Poll::Ready(entered) = waiter.poll() {
                self.inside.push(entered.unwrap());
                self.waiting.remove(at);
            }
        }
        let inside = self.inside.len();
        assert!(
            self.waiting.is_empty() || inside == LIMIT,
            "{} wait, and only {inside} are inside",
            self.waiting.len()
        );
    }

    /// Lets every remaining waiter in after the holders before it have left, through wakes alone.
    fn empty(&mut self) {
        self.run_woken();
        while !self.inside.is_empty() {
            self.throttle.rollback(self.inside.swap_remove(0));
            self.run_woken();
        }
        assert_at_rest(&self.throttle, LIMIT);
    }
}

pub(crate) fn random_entries_and_exits_lose_nothing(subject: &Subject) {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut crowd = Crowd::new(subject);
        for _ in 0..200 {
            crowd.step(&mut random);
        }
        crowd.empty();
    }
}

pub(crate) fn closing_in_the_midst_of_a_crowd_leaves_nobody_waiting(subject: &Subject) {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut crowd = Crowd::new(subject);
        for _ in 0..50 {
            crowd.step(&mut random);
        }
        crowd.throttle.close();
        for (mut waiter, seen) in crowd.waiting {
            assert!(waiter.wakes() > seen, "not woken by the close");
            match waiter.output() {
                Ok(permit) => crowd.inside.push(permit),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
            }
        }
        assert!(crowd.inside.len() <= LIMIT, "too many are inside");
        crowd.throttle.rollback_all(crowd.inside);
        let refused = Waiter::new(crowd.throttle.enter()).refused();
        assert_eq!(refused, ErrorKind::Closed);
    }
}

/// Four threads that begin each round together, so that they meet.
#[derive(Default)]
struct Rounds(AtomicUsize);

impl Rounds {
    const THREADS: usize = 4;

    /// Runs one thread's part of each round.
    fn each<T>(&self, parts: impl IntoIterator<Item = T>, mut run: impl FnMut(T)) {
        let _ends = EndOfThread(self);
        for (round, part) in (1..).zip(parts) {
            self.0.fetch_add(1, Ordering::SeqCst);
            while self.0.load(Ordering::SeqCst) < Self::THREADS * round {
                thread::yield_now();
            }
            run(part);
        }
    }
}

/// No thread waits for one that has panicked.
struct EndOfThread<'a>(&'a Rounds);

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(usize::MAX / 8, Ordering::SeqCst);
    }
}

/// Some callers leave while others run, give up and come, each on a thread of its own. When all
/// have finished, no waiter may be asleep while there is room.
pub(crate) fn threads_leave_nobody_asleep_while_there_is_room(subject: &Subject) {
    let mut crowds: Vec<_> = (0..300).map(|_| Crowd::new(subject)).collect();
    let (mut leave, mut give_up, mut run) = (Vec::new(), Vec::new(), Vec::new());
    for (round, crowd) in crowds.iter_mut().enumerate() {
        let throttle = &crowd.throttle;
        leave.push((throttle.clone(), fill(throttle, LIMIT)));
        crowd.waiting = (0..5).map(|_| (parked(throttle), 0)).collect();
        give_up.push(crowd.waiting.remove(round % 5));
        run.push(crowd.waiting.remove(round % 4));
    }
    let come: Vec<_> = crowds.iter().map(|crowd| crowd.throttle.clone()).collect();
    let (mut tried, mut polled) = (Vec::new(), Vec::new());
    let rounds = Rounds::default();
    thread::scope(|scope| {
        scope.spawn(|| rounds.each(leave, |(throttle, permits)| throttle.rollback_all(permits)));
        scope.spawn(|| rounds.each(give_up, drop));
        scope.spawn(|| rounds.each(come, |throttle| tried.push(throttle.try_enter())));
        rounds.each(run, |(mut waiter, _)| {
            let seen = waiter.wakes();
            polled.push((waiter.poll(), waiter, seen));
        });
    });
    for ((mut crowd, tried), (polled, waiter, seen)) in crowds.into_iter().zip(tried).zip(polled) {
        crowd.inside.extend(tried);
        match polled {
            Poll::Ready(entered) => crowd.inside.push(entered.unwrap()),
            Poll::Pending => crowd.waiting.push((waiter, seen)),
        }
        crowd.empty();
    }
}
