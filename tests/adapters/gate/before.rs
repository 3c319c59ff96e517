//! A throttle behind a gate that is looked at again: nobody is admitted in a block, and nothing is held through it.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate::fair::FairQueue;
use tollgate::time::ManualClock;
use tollgate::{Clock, ErrorKind, Gate, Keyed, Quota, RateLimiter, Semaphore, all};

use super::{MINUTE, NANO, open, shut};
use crate::support::foreign::calls_when_woken;
use crate::support::{Waiter, assert_at_rest};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a rate of one per second, without a burst.
fn rate(clock: &ManualClock) -> RateLimiter {
    RateLimiter::new(Quota::per_second(1)).clock(clock)
}

#[test]
fn acquire_in_a_block_holds_nothing_of_the_throttle() {
    let ((gate, clock), slots) = (shut(), Semaphore::new(1));
    let gated = gate.before(&slots);
    let mut waiting = Waiter::parked(gated.acquire());
    clock.advance(MINUTE - NANO);
    assert!(waiting.is_pending());
    assert_eq!((slots.available_permits(), gate.snapshot().waiting), (1, 1));
    clock.advance(NANO);
    let slot = waiting.granted();
    assert_eq!(slots.available_permits(), 0);
    drop(slot);
    assert_at_rest(&slots, 1);
}

#[test]
fn acquire_admitted_by_the_throttle_in_a_block_returns_the_slot_and_waits_for_its_end() {
    let ((gate, clock), slots) = (open(), Semaphore::new(1));
    let held = slots.try_acquire().unwrap();
    let mut waiting = Waiter::parked(gate.before(&slots).acquire());
    gate.block_for(MINUTE);
    drop(held);
    assert_eq!((waiting.wakes(), slots.available_permits()), (1, 0));
    assert!(waiting.is_pending());
    assert_eq!((slots.available_permits(), gate.snapshot().waiting), (1, 1));
    clock.advance(MINUTE);
    assert_eq!(waiting.wakes(), 2);
    drop(waiting.granted());
    assert_at_rest(&slots, 1);
}

#[test]
fn acquire_admitted_by_a_rate_in_a_block_refunds_its_charge() {
    let (gate, clock) = open();
    let rate = rate(&clock);
    rate.try_acquire().unwrap();
    let mut waiting = Waiter::parked(gate.before(&rate).acquire());
    gate.block_for(MINUTE);
    clock.advance(SECOND);
    assert!(waiting.is_pending());
    assert_eq!(rate.snapshot().available, 1);
    clock.advance(MINUTE - SECOND);
    let charge = waiting.granted();
    assert_eq!(charge.at(), clock.now());
}

/// Each one that is stopped returns its slot to the next, and joins the gate before that.
#[test]
fn acquire_stopped_at_the_second_look_keeps_the_order_among_those_stopped() {
    let ((gate, clock), slots) = (open(), Arc::new(Semaphore::new(1)));
    let gated = gate.before(Arc::clone(&slots));
    let held = slots.try_acquire().unwrap();
    let mut waiting: Vec<_> = (0..40).map(|_| Waiter::parked(gated.acquire())).collect();
    gate.block_for(MINUTE);
    // It comes in the block, and stands at the gate before the others.
    let mut later = Waiter::parked(gated.acquire());
    drop(held);
    for (before, waiter) in waiting.iter_mut().enumerate() {
        assert_eq!((waiter.wakes(), gate.snapshot().waiting), (1, before + 1));
        assert!(waiter.is_pending());
    }
    assert_at_rest(&slots, 1);
    clock.advance(MINUTE);
    drop(later.granted());
    // The permits of a semaphore show in which order the released callers would be admitted: all at once.
    for waiter in &mut waiting {
        assert_eq!(waiter.wakes(), 2);
        drop(waiter.granted());
    }
    assert_at_rest(&slots, 1);
}

/// The next caller may run inside the rollback. It must stand behind the one that rolls back.
#[test]
fn acquire_stopped_at_the_second_look_stands_at_the_gate_before_its_permit_returns() {
    let ((gate, _clock), slots) = (open(), Arc::new(Semaphore::new(1)));
    let gated = gate.before(Arc::clone(&slots));
    let held = slots.try_acquire().unwrap();
    let mut first = Waiter::parked(gated.acquire());
    let mut next = Waiter::new(Arc::clone(&slots).acquire_owned());
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let waker = calls_when_woken({
        let (gate, seen) = (gate.clone(), Arc::clone(&seen));
        move || seen.lock().unwrap().push(gate.snapshot().waiting)
    });
    assert!(next.poll_with(&waker).is_pending());
    gate.block_for(MINUTE);
    drop(held);
    assert!(first.is_pending());
    assert_eq!(*seen.lock().unwrap(), [1]);
}

#[test]
fn acquire_stopped_by_a_gate_that_opens_meanwhile_keeps_its_permit() {
    let ((gate, clock), slots) = (open(), Semaphore::new(1));
    let held = slots.try_acquire().unwrap();
    let mut waiting = Waiter::parked(gate.before(&slots).acquire());
    gate.block_for(MINUTE);
    drop(held);
    // It was admitted in the block, and runs only after it.
    clock.advance(MINUTE);
    let slot = waiting.granted();
    assert_eq!((slots.available_permits(), gate.snapshot().waiting), (0, 0));
    drop(slot);
    assert_at_rest(&slots, 1);
}

#[test]
fn acquire_while_the_gate_is_blocked_again_and_again_waits_for_the_last_end() {
    let ((gate, clock), slots) = (shut(), Semaphore::new(1));
    let mut waiting = Waiter::parked(gate.before(&slots).acquire());
    // Lengthened while it waits at the gate.
    clock.advance(MINUTE - NANO);
    gate.block_for(MINUTE);
    clock.advance(MINUTE - NANO);
    assert!(waiting.is_pending());
    for _ in 0..3 {
        // Released to the throttle, which has no room; and blocked before it has.
        let held = slots.try_acquire().unwrap();
        clock.advance(MINUTE);
        assert!(waiting.is_pending());
        assert_eq!((slots.snapshot().waiting, gate.snapshot().waiting), (1, 0));
        gate.block_for(MINUTE);
        drop(held);
        assert!(waiting.is_pending());
        assert_eq!((slots.snapshot().waiting, gate.snapshot().waiting), (0, 1));
    }
    clock.advance(MINUTE);
    drop(waiting.granted());
    assert_at_rest(&slots, 1);
}

/// A waiter that the gate has released is not polled before the gate is blocked again.
#[test]
fn acquire_released_and_blocked_again_before_it_runs_is_stopped_at_the_second_look() {
    let ((gate, clock), slots) = (shut(), Semaphore::new(1));
    let mut waiting = Waiter::parked(gate.before(&slots).acquire());
    clock.advance(MINUTE);
    gate.block_for(MINUTE);
    assert!(waiting.is_pending());
    assert_eq!((slots.available_permits(), gate.snapshot().waiting), (1, 1));
    gate.open();
    drop(waiting.granted());
}

#[test]
fn acquire_of_a_gate_that_is_opened_early_is_admitted_at_once() {
    let ((gate, clock), slots) = (shut(), Semaphore::new(1));
    let gated = gate.before(&slots);
    let mut waiting = Waiter::parked(gated.acquire());
    clock.advance(SECOND);
    gate.open();
    assert_eq!(waiting.wakes(), 1);
    drop(waiting.granted());
    assert!(gated.try_acquire().is_ok());
}

#[test]
fn drop_at_each_stage_leaves_nothing_behind() {
    let ((gate, clock), slots) = (open(), Semaphore::new(1));
    let gated = gate.before(&slots);
    let at_rest = || {
        assert_at_rest(&slots, 1);
        assert_eq!(gate.snapshot().waiting, 0);
    };
    drop(Waiter::new(gated.acquire()));
    at_rest();

    gate.block_for(MINUTE);
    drop(Waiter::parked(gated.acquire()));
    at_rest();

    let released = Waiter::parked(gated.acquire());
    clock.advance(MINUTE);
    drop(released);
    at_rest();

    let held = slots.try_acquire().unwrap();
    drop(Waiter::parked(gated.acquire()));
    assert_eq!(slots.snapshot().waiting, 0);

    let admitted = Waiter::parked(gated.acquire());
    let mut next = Waiter::parked(gated.acquire());
    drop(held);
    drop(admitted);
    assert_eq!(next.wakes(), 1);
    drop(next.granted());
    at_rest();

    let held = slots.try_acquire().unwrap();
    let mut stopped = Waiter::parked(gated.acquire());
    gate.block_for(MINUTE);
    drop(held);
    assert!(stopped.is_pending());
    drop(stopped);
    at_rest();
}

#[test]
fn try_acquire_in_a_block_says_when_it_ends_and_takes_nothing() {
    let ((gate, _clock), slots) = (shut(), Semaphore::new(1));
    let gated = gate.before(&slots);
    let refused = gated.try_acquire().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.retry_after()),
        (ErrorKind::RateLimited, Some(MINUTE))
    );
    gate.open();
    let slot = gated.try_acquire().unwrap();
    assert_eq!(
        gated.try_acquire().unwrap_err().kind(),
        ErrorKind::NoPermits
    );
    drop(slot);
    assert_at_rest(&slots, 1);
}

#[test]
fn timeout_that_ends_in_the_block_refuses_at_either_look() {
    let ((gate, clock), slots) = (shut(), Semaphore::new(1));
    let gated = gate.before(&slots);
    let within = |time| Waiter::new(gated.acquire().timeout(time));
    assert_eq!(within(MINUTE - NANO).refused(), ErrorKind::TimedOut);
    clock.advance(MINUTE);
    let rate = Arc::new(rate(&clock));
    rate.try_acquire().unwrap();
    let gated = gate.before(Arc::clone(&rate));
    let mut waiting = Waiter::parked(gated.acquire().timeout(5 * SECOND));
    gate.block_for(MINUTE);
    clock.advance(SECOND);
    assert_eq!(waiting.refused(), ErrorKind::TimedOut);
    assert_eq!((rate.snapshot().available, gate.snapshot().waiting), (1, 0));
}

#[test]
fn close_of_the_throttle_refuses_who_waits_in_it_at_once_and_others_after_the_block() {
    let ((gate, clock), slots) = (open(), Semaphore::new(0));
    let gated = gate.before(&slots);
    let mut inside = Waiter::parked(gated.acquire());
    gate.block_for(MINUTE);
    let mut at_gate = Waiter::parked(gated.acquire());
    slots.close();
    assert_eq!(inside.refused(), ErrorKind::Closed);
    assert!(at_gate.is_pending());
    clock.advance(MINUTE);
    assert_eq!(at_gate.refused(), ErrorKind::Closed);
}

#[test]
fn close_of_a_map_of_gates_refuses_who_waits_and_who_is_looked_at_again() {
    let (clock, slots) = (Clock::manual(), Arc::new(Semaphore::new(1)));
    let chats = Arc::new(Keyed::<u8, _>::new(Gate::new().clock(&clock)));
    let gated = Arc::clone(&chats).key_owned(7).before(Arc::clone(&slots));
    let held = slots.try_acquire().unwrap();
    let mut inside = Waiter::parked(gated.acquire());
    chats.key(&7).pause_for(MINUTE).unwrap();
    let mut at_gate = Waiter::parked(gated.acquire());
    chats.close();
    assert_eq!(at_gate.wakes(), 1);
    assert_eq!(at_gate.refused(), ErrorKind::Closed);
    drop(held);
    assert_eq!(inside.refused(), ErrorKind::Closed);
    assert_at_rest(&slots, 1);
    assert_eq!(gated.try_acquire().unwrap_err().kind(), ErrorKind::Closed);
}

/// One entrant of the queue stands for all of them, and the order of the queue holds.
#[test]
fn acquire_of_a_fair_queue_in_front_admits_nobody_in_a_block() {
    let (gate, clock) = open();
    let rate = Arc::new(rate(&clock));
    let queue = FairQueue::new(gate.before(Arc::clone(&rate)));
    let class = queue.class("a class");
    drop(class.try_acquire().unwrap());
    let mut waiting: Vec<_> = (0..3).map(|_| Waiter::parked(class.acquire())).collect();
    gate.block_for(5 * SECOND);
    let opens = clock.now().saturating_add(5 * SECOND);
    clock.advance(5 * SECOND - NANO);
    assert!(waiting.iter_mut().all(Waiter::is_pending));
    clock.advance(NANO);
    for (at, waiter) in waiting.iter_mut().enumerate() {
        let permit = loop {
            match waiter.poll() {
                Poll::Ready(permit) => break permit.unwrap(),
                Poll::Pending => clock.advance(SECOND),
            }
        };
        assert_eq!(permit.at(), opens.saturating_add(at as u32 * SECOND));
        drop(permit);
    }
}

#[test]
fn acquire_of_several_parts_returns_all_of_them_in_a_block() {
    let ((gate, clock), slots) = (open(), Semaphore::new(1));
    let rate = rate(&clock);
    rate.try_acquire().unwrap();
    let gated = gate.before(all((&slots, &rate)));
    let mut waiting = Waiter::parked(gated.acquire());
    gate.block_for(MINUTE);
    clock.advance(SECOND);
    assert!(waiting.is_pending());
    assert_eq!(
        (slots.available_permits(), rate.snapshot().available),
        (1, 1)
    );
    clock.advance(MINUTE);
    drop(waiting.granted());
    assert_at_rest(&slots, 1);
}

/// Chats with a rate of one a second each, on tokio's time.
#[cfg(feature = "tokio")]
mod chats {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use futures::future::join_all;
    use tokio::time::{Instant, sleep, sleep_until};

    use super::*;
    use crate::support::paused_runtime;

    const CHAT: u64 = 7;

    struct Bot {
        pauses: Keyed<u64, Gate>,
        chats: Keyed<u64, RateLimiter>,
        total: Semaphore,
        begun: Instant,
        /// When the messages of each chat left.
        left: RefCell<BTreeMap<u64, Vec<Duration>>>,
    }

    impl Bot {
        fn new(total: usize) -> Self {
            let each = RateLimiter::new(Quota::per_second(1)).clock(Clock::tokio());
            Self {
                pauses: Keyed::new(Gate::new().clock(Clock::tokio())),
                chats: Keyed::new(each),
                total: Semaphore::new(total),
                begun: Instant::now(),
                left: RefCell::default(),
            }
        }

        async fn send(&self, chat: u64, takes: Duration) {
            let limits = all((self.chats.key(&chat), &self.total));
            let limits = self.pauses.key(&chat).before(limits);
            let (_, slot) = limits.acquire().await.unwrap();
            assert!(self.pauses.key(&chat).is_open(), "it leaves in the pause");
            let at = self.begun.elapsed();
            self.left.borrow_mut().entry(chat).or_default().push(at);
            sleep(takes).await;
            drop(slot);
        }

        async fn send_many(&self, chat: u64, messages: usize) {
            join_all((0..messages).map(|_| self.send(chat, Duration::ZERO))).await;
        }

        async fn pause_at(&self, at: Duration, chat: u64, time: Duration) {
            sleep_until(self.begun + at).await;
            self.pauses.key(&chat).pause_for(time).unwrap();
        }

        fn left(&self, chat: u64) -> Vec<Duration> {
            self.left.borrow()[&chat].clone()
        }
    }

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Returns the times of this many messages that leave at the rate.
    fn at_the_rate(from: Duration, messages: usize) -> impl Iterator<Item = Duration> {
        (0..messages).map(move |message| from + message as u32 * SECOND)
    }

    #[test]
    fn pause_for_a_chat_of_100_messages_lets_none_leave_and_then_all_at_the_rate() {
        paused_runtime().block_on(async {
            let bot = Bot::new(1000);
            let other = 8;
            tokio::join!(
                bot.send_many(CHAT, 100),
                bot.send_many(other, 20),
                bot.pause_at(millis(10_500), CHAT, 5 * SECOND),
            );
            let expected: Vec<_> = at_the_rate(Duration::ZERO, 11)
                .chain(at_the_rate(millis(15_500), 89))
                .collect();
            assert_eq!(bot.left(CHAT), expected);
            let expected: Vec<_> = at_the_rate(Duration::ZERO, 20).collect();
            assert_eq!(bot.left(other), expected);
        });
    }

    /// Without the second look these would leave at 4 s. Had they kept their charges, they would leave together at
    /// the end.
    #[test]
    fn pause_for_a_chat_whose_messages_were_charged_and_wait_for_the_total_keeps_no_charge() {
        paused_runtime().block_on(async {
            let bot = Bot::new(1);
            tokio::join!(
                bot.send(8, millis(4000)), // It has the only slot.
                bot.send_many(CHAT, 100),
                async {
                    sleep_until(bot.begun + millis(1)).await;
                    bot.send(9, Duration::ZERO).await;
                },
                bot.pause_at(millis(2500), CHAT, 5 * SECOND),
                async {
                    sleep_until(bot.begun + millis(4100)).await;
                    // Four were charged, and one was due at 4 s.
                    assert_eq!(bot.chats.key(&CHAT).snapshot().available, 1);
                    assert_eq!(bot.chats.key(&CHAT).snapshot().waiting, 0);
                    assert_eq!(bot.total.available_permits(), 1);
                    assert_eq!(bot.pauses.key(&CHAT).snapshot().waiting, 100);
                },
            );
            let expected: Vec<_> = at_the_rate(millis(7500), 100).collect();
            assert_eq!(bot.left(CHAT), expected);
            // Behind one message of the paused chat, which passes the slot on at once.
            assert_eq!(bot.left(9), [millis(4000)]);
        });
    }

    #[test]
    fn pause_for_a_tenth_of_1000_chats_delays_no_other() {
        paused_runtime().block_on(async {
            let runs = async |paused: bool| {
                let bot = Bot::new(50);
                let sends = (0..1000).map(|chat| {
                    let bot = &bot;
                    join_all((0..5).map(move |_| bot.send(chat, millis(1))))
                });
                let pauses = (0..1000).step_by(10).filter(|_| paused);
                let pauses = pauses.map(|chat| bot.pause_at(millis(500), chat, 5 * SECOND));
                tokio::join!(join_all(sends), join_all(pauses));
                bot.left.into_inner()
            };
            let (alone, beside) = (runs(false).await, runs(true).await);
            for (chat, left) in &beside {
                if chat % 10 == 0 {
                    let first = *left.first().unwrap();
                    assert!(first < millis(500), "{first:?}");
                    assert!(left[1] >= millis(5500));
                    let gaps = left[1..].windows(2).map(|it| it[1] - it[0]);
                    // 100 chats leave in two rounds of 50.
                    assert!(gaps.min().unwrap() >= millis(999), "{left:?}");
                } else {
                    let no_later = left.iter().zip(&alone[chat]).all(|(a, b)| a <= b);
                    assert!(no_later, "{chat}: {left:?} {:?}", alone[chat]);
                }
            }
        });
    }
}
