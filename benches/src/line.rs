//! Measures a long line of waiters: joining it, passing it, leaving it.
//!
//! Every future is in a box of its own, allocated once before any timing. tokio's and futures-intrusive's
//! must not move once polled, so they need one; ours could be in a plain vector, and gets the same box, so that all
//! access memory alike. [`Flat`] is the layout that only an `Unpin` future can have.
//!
//! The waker does nothing, and cloning it costs nothing: a task's waker would add the same reference counting to
//! all contenders.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::executor::block_on;
use tollgate::Throttle;
use tower::ServiceExt;
use tower::limit::ConcurrencyLimit;

use crate::harness::{Contender, Stopwatch, Work, made};
use crate::peer::{Answer, Ours, Peer, TryPeer};
use crate::service::Immediate;

/// The number of waiters.
pub const WAITERS: usize = 10_000;

/// Places for futures, which are reused.
pub trait Places<F: Future> {
    /// Creates `count` empty places.
    fn with_places(count: usize) -> Self;

    /// Puts a future into a place.
    fn put(&mut self, place: usize, future: F);

    /// Polls the future in a place.
    fn poll(&mut self, place: usize) -> Poll<F::Output>;

    /// Drops the future in a place; the place stays.
    fn clear(&mut self, place: usize);
}

/// A box for each future.
pub struct Boxed<F>(Vec<Pin<Box<Option<F>>>>);

impl<F: Future> Places<F> for Boxed<F> {
    fn with_places(count: usize) -> Self {
        Boxed((0..count).map(|_| Box::pin(None)).collect())
    }

    #[inline]
    fn put(&mut self, place: usize, future: F) {
        self.0[place].set(Some(future));
    }

    #[inline]
    fn poll(&mut self, place: usize) -> Poll<F::Output> {
        let future = self.0[place]
            .as_mut()
            .as_pin_mut()
            .expect("a future is in this place");
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[inline]
    fn clear(&mut self, place: usize) {
        self.0[place].set(None);
    }
}

/// The futures next to one another in a vector.
pub struct Flat<F>(Vec<Option<F>>);

impl<F: Future + Unpin> Places<F> for Flat<F> {
    fn with_places(count: usize) -> Self {
        Flat((0..count).map(|_| None).collect())
    }

    #[inline]
    fn put(&mut self, place: usize, future: F) {
        self.0[place] = Some(future);
    }

    #[inline]
    fn poll(&mut self, place: usize) -> Poll<F::Output> {
        let future = self.0[place].as_mut().expect("a future is in this place");
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[inline]
    fn clear(&mut self, place: usize) {
        self.0[place] = None;
    }
}

/// A semaphore of one permit, and many waiters for it.
pub trait Line {
    /// Takes the permit, so that all others have to wait.
    fn hold(&mut self);

    /// Lets all waiters join: each future is made and polled for the first time.
    fn enqueue(&mut self);

    /// Lets the holder leave and pass on the permit, and every waiter after it.
    fn drain(&mut self);

    /// Lets the waiters give up in this order, and the holder leave.
    fn cancel(&mut self, order: &[usize]);

    /// Returns the bytes of one future.
    fn future_size(&self) -> usize;

    /// Returns the number of waiters.
    fn count(&self) -> usize;
}

struct Standing<L, Hold, H, Wait, GiveBack> {
    places: L,
    count: usize,
    hold: Hold,
    held: Option<H>,
    wait: Wait,
    give_back: GiveBack,
}

impl<L, F, H, Hold, Wait, GiveBack> Line for Standing<L, Hold, H, Wait, GiveBack>
where
    F: Future,
    L: Places<F>,
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

/// Creates an unused line: only the places are allocated. `hold` takes the permit,
/// `wait` makes a waiter, and `give_back` follows when the permit of either has been dropped.
pub fn stand<L, F, H>(
    count: usize,
    hold: impl Fn() -> H + 'static,
    wait: impl Fn() -> F + 'static,
    give_back: impl Fn() + 'static,
) -> Box<dyn Line>
where
    F: Future + 'static,
    H: 'static,
    L: Places<F> + 'static,
{
    Box::new(Standing {
        places: L::with_places(count),
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

/// Creates a peer's line, each future in its box.
///
/// The semaphore is leaked, because the futures that stay in their places borrow it.
#[must_use]
pub fn boxed<P: Peer>(count: usize) -> Box<dyn Line> {
    let one: &'static P = Box::leak(Box::new(P::with_permits(1)));
    stand::<Boxed<_>, _, _>(count, || held(one), || one.acquire(), || one.give_back())
}

/// Creates our line in a plain vector.
#[must_use]
pub fn flat(count: usize) -> Box<dyn Line> {
    let one: &'static Ours = Box::leak(Box::new(Ours::new(1)));
    stand::<Flat<_>, _, _>(count, || held(one), || one.acquire(), || one.give_back())
}

/// Creates tower's line: clones of one limited service, each called once.
#[must_use]
pub fn tower(count: usize) -> Box<dyn Line> {
    let semaphore = Arc::new(tokio::sync::Semaphore::new(1));
    let service = ConcurrencyLimit::with_semaphore(Immediate, Arc::clone(&semaphore));
    stand::<Boxed<_>, _, _>(
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

/// Creates the line of a throttle, entered through our trait.
pub fn entered<T>(count: usize, throttle: T) -> Box<dyn Line>
where
    T: Throttle<Enter: 'static, Permit: 'static> + 'static,
{
    let same = throttle.clone();
    stand::<Boxed<_>, _, _>(
        count,
        move || block_on(same.enter()).expect("it is not closed"),
        move || throttle.enter(),
        || {},
    )
}

/// Uses a line once, so that all allocations of a semaphore for its waiters exist.
pub fn warm(line: &mut dyn Line) {
    line.hold();
    line.enqueue();
    line.drain();
}

/// The timed part of a line.
#[derive(Clone, Debug)]
pub enum Part {
    /// Joining.
    Enqueue,
    /// Passing on.
    Drain,
    /// Joining and passing on.
    Both,
    /// Giving up, in this order.
    Cancel(Rc<[usize]>),
}

impl Part {
    /// Returns the part in which `count` waiters give up.
    #[must_use]
    pub fn cancel(order: Order, count: usize) -> Part {
        Part::Cancel(order.places(count).into())
    }

    /// Times the part `times` times, and returns the sum.
    pub fn time(&self, line: &mut dyn Line, times: u64) -> Duration {
        let mut sum = Duration::ZERO;
        for _ in 0..times {
            line.hold();
            let joining = Stopwatch::start();
            line.enqueue();
            let joined = joining.elapsed();
            let leaving = Stopwatch::start();
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

/// Makes a contender with a line of `count` waiters and a timed part.
pub fn in_line(
    count: usize,
    name: impl Into<String>,
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

/// Makes a contender with a peer's line and a timed part.
pub fn of<P: Peer>(count: usize, part: &Part) -> Contender {
    in_line(count, P::NAME, boxed::<P>, part)
}

/// The order of leaving.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// From the head of the line to its tail.
    FirstIn,
    /// From its tail to its head.
    LastIn,
    /// At random, with the same permutation in every run.
    Random,
}

impl Order {
    /// Returns the places of a line of this length in this order.
    #[must_use]
    pub fn places(self, count: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..count).collect();
        match self {
            Order::FirstIn => {}
            Order::LastIn => places.reverse(),
            Order::Random => shuffle(&mut places),
        }
        places
    }
}

/// Shuffles like Fisher and Yates, with a linear congruential generator and a fixed seed: good enough to defeat a
/// prefetcher, and the same everywhere.
fn shuffle(places: &mut [usize]) {
    let mut state: u64 = 0x5eed;
    for last in (1..places.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let other = (state >> 33) as usize % (last + 1);
        places.swap(last, other);
    }
}
