//! A long queue of waiters: joining, being admitted, leaving.
//!
//! Every future lies in a box of its own, allocated once before the timing. The futures of tokio and futures-intrusive
//! must not move once polled, so they need a box; ours could lie in a plain vector, and gets the same box, so that all
//! access memory alike.
//!
//! The waker does nothing, and cloning it costs nothing: a task's waker would add the same reference counting to
//! every contender.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::executor::block_on;
use oorandom::Rand64;
use tollgate::Throttle;
use tower::ServiceExt;
use tower::limit::ConcurrencyLimit;

use crate::harness::{Contender, Stopwatch, Work, made};
use crate::peer::{Answer, Immediate, Peer, TryPeer};

/// The number of waiters.
pub const WAITERS: usize = 10_000;

/// Reusable places for futures: a box for each.
pub struct Places<F>(Vec<Pin<Box<Option<F>>>>);

impl<F: Future> Places<F> {
    /// Allocates this many empty places.
    pub fn new(count: usize) -> Self {
        Places((0..count).map(|_| Box::pin(None)).collect())
    }

    /// Puts a future into a place.
    #[inline]
    pub fn put(&mut self, place: usize, future: F) {
        self.0[place].set(Some(future));
    }

    /// Polls the future in a place.
    #[inline]
    pub fn poll(&mut self, place: usize) -> Poll<F::Output> {
        let future = self.0[place].as_mut().as_pin_mut();
        let future = future.expect("a future is in this place");
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Drops the future in a place; the place stays.
    #[inline]
    pub fn clear(&mut self, place: usize) {
        self.0[place].set(None);
    }
}

/// A semaphore of one permit, and its many waiters.
pub trait Line {
    /// Takes the permit, so that all others have to wait.
    fn hold(&mut self);

    /// Lets all waiters join: makes each future and polls it for the first time.
    fn enqueue(&mut self);

    /// Releases the permit; every waiter after that passes it on.
    fn drain(&mut self);

    /// Cancels the waiters in this order, and releases the permit.
    fn cancel(&mut self, order: &[usize]);

    /// Returns the bytes of one future.
    fn future_size(&self) -> usize;

    /// Returns the number of waiters.
    fn count(&self) -> usize;
}

struct Standing<F, Hold, H, Wait, GiveBack> {
    places: Places<F>,
    count: usize,
    hold: Hold,
    held: Option<H>,
    wait: Wait,
    give_back: GiveBack,
}

impl<F, H, Hold, Wait, GiveBack> Line for Standing<F, Hold, H, Wait, GiveBack>
where
    F: Future,
    Hold: Fn() -> H,
    Wait: Fn() -> F,
    GiveBack: Fn(),
{
    fn hold(&mut self) {
        self.held = Some((self.hold)());
    }

    fn enqueue(&mut self) {
        for place in 0..self.count {
            self.places.put(place, (self.wait)());
            assert!(self.places.poll(place).is_pending(), "the permit is held");
        }
    }

    fn drain(&mut self) {
        self.held = None;
        (self.give_back)();
        for place in 0..self.count {
            assert!(self.places.poll(place).is_ready(), "its turn has come");
            (self.give_back)();
            self.places.clear(place);
        }
    }

    fn cancel(&mut self, order: &[usize]) {
        for &place in order {
            self.places.clear(place);
        }
        self.held = None;
        (self.give_back)();
    }

    fn future_size(&self) -> usize {
        size_of::<F>()
    }

    fn count(&self) -> usize {
        self.count
    }
}

/// Creates a queue that has had no waiter yet: only the places are allocated. `hold` takes the permit,
/// `wait` makes a waiter, and `give_back` follows when the permit of either has been dropped.
pub fn stand<F: Future + 'static, H: 'static>(
    count: usize,
    hold: impl Fn() -> H + 'static,
    wait: impl Fn() -> F + 'static,
    give_back: impl Fn() + 'static,
) -> Box<dyn Line> {
    Box::new(Standing {
        places: Places::new(count),
        count,
        hold,
        held: None,
        wait,
        give_back,
    })
}

/// Takes the only permit.
fn held<P: TryPeer>(semaphore: &P) -> impl Answer + '_ {
    let answer = semaphore.try_acquire();
    assert!(answer.is_permit(), "a permit is free");
    answer
}

/// Creates a peer's queue, each future in its box.
///
/// The semaphore is leaked, because the futures in the places borrow it.
pub fn boxed<P: Peer>(count: usize) -> Box<dyn Line> {
    let one: &'static P = Box::leak(Box::new(P::with_permits(1)));
    stand(count, || held(one), || one.acquire(), || one.give_back())
}

/// Creates tower's queue: clones of one limited service, each called once.
pub fn tower(count: usize) -> Box<dyn Line> {
    let semaphore = Arc::new(tokio::sync::Semaphore::new(1));
    let service = ConcurrencyLimit::with_semaphore(Immediate, Arc::clone(&semaphore));
    stand(
        count,
        move || {
            Arc::clone(&semaphore)
                .try_acquire_owned()
                .expect("it is free")
        },
        move || service.clone().oneshot(()),
        || {},
    )
}

/// Creates the queue of a throttle, entered through our trait.
pub fn entered<T>(count: usize, throttle: T) -> Box<dyn Line>
where
    T: Throttle<Enter: 'static, Permit: 'static> + 'static,
{
    let same = throttle.clone();
    stand(
        count,
        move || block_on(same.enter()).expect("it is not closed"),
        move || throttle.enter(),
        || {},
    )
}

/// Uses a queue once, so that the semaphore's allocations for its waiters exist.
pub fn warm(line: &mut dyn Line) {
    line.hold();
    line.enqueue();
    line.drain();
}

/// The timed part of a queue.
#[derive(Clone, Debug)]
pub enum Part {
    /// The joining.
    Enqueue,
    /// The handing on.
    Drain,
    /// Both.
    Both,
    /// The giving up, in this order.
    Cancel(Rc<[usize]>),
}

impl Part {
    /// Returns the giving up of this many waiters.
    pub fn cancel(order: Order, count: usize) -> Part {
        Part::Cancel(order.places(count).into())
    }

    /// Times it this many times.
    pub fn time(&self, line: &mut dyn Line, times: u64) -> Duration {
        let mut sum = Duration::ZERO;
        for _ in 0..times {
            line.hold();
            let joining = Stopwatch::now();
            line.enqueue();
            let joined = joining.elapsed();
            let leaving = Stopwatch::now();
            match self {
                Part::Cancel(order) => line.cancel(order),
                _ => line.drain(),
            }
            sum += match self {
                Part::Enqueue => joined,
                Part::Drain | Part::Cancel(_) => leaving.elapsed(),
                Part::Both => joining.elapsed(),
            };
        }
        sum
    }
}

/// Measures a part of a queue of this many waiters.
pub fn in_line(
    count: usize,
    name: &str,
    line: impl Fn(usize) -> Box<dyn Line> + 'static,
    part: &Part,
) -> Contender {
    let timed = part.clone();
    let contender = made(name, move || Work::Line(line(count), timed.clone()));
    match part {
        Part::Enqueue | Part::Drain => contender,
        Part::Both | Part::Cancel(_) => contender.counted(count as u64),
    }
}

/// Measures a part of a peer's queue.
pub fn of<P: Peer>(count: usize, part: &Part) -> Contender {
    in_line(count, P::NAME, boxed::<P>, part)
}

/// The order of leaving.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// From the head of the queue on.
    FirstIn,
    /// From its tail on.
    LastIn,
    /// Random; the same permutation in every run.
    Random,
}

impl Order {
    /// Returns the places of a queue of this length in this order.
    pub fn places(self, count: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..count).collect();
        match self {
            Order::FirstIn => {}
            Order::LastIn => places.reverse(),
            // The shuffle of Fisher and Yates: good enough to defeat a prefetcher.
            Order::Random => {
                let mut random = Rand64::new(0x5eed);
                for last in (1..count).rev() {
                    places.swap(last, random.rand_range(0..last as u64 + 1) as usize);
                }
            }
        }
        places
    }
}
