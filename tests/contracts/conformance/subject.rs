//! The parts that a type provides to be checked.
//!
//! A check is compiled once: it takes an [`AnyThrottle`], which forwards each call to a throttle of
//! unknown type.

use std::any::Any;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tollgate::throttle::{Polling, Weighted};
use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind, Throttle, TryThrottle};

use crate::support::Waiter;

/// A kind of throttle, and its constructor.
#[derive(Clone)]
pub(crate) struct Subject {
    /// Shown when a check fails.
    pub(crate) name: String,
    pub(crate) guarantees: Guarantees,
    make: Arc<dyn Fn(usize) -> AnyThrottle + Send + Sync>,
}

impl Subject {
    pub(crate) fn new(
        name: impl ToString,
        guarantees: Guarantees,
        make: impl Fn(usize) -> AnyThrottle + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_string(),
            guarantees,
            make: Arc::new(make),
        }
    }

    /// Returns a throttle that admits this many, and then nobody until one has left.
    pub(crate) fn with_limit(&self, limit: usize) -> AnyThrottle {
        (self.make)(limit)
    }

    /// Returns one with a limit of one, which is taken.
    #[track_caller]
    pub(crate) fn held(&self) -> (AnyThrottle, AnyPermit) {
        let throttle = self.with_limit(1);
        let permit = throttle.try_enter().expect("there is room");
        (throttle, permit)
    }
}

/// The guarantees of a kind of throttle beyond the trait, as in the table in
/// `tollgate::guarantees`. A check of a missing guarantee passes.
#[derive(Clone, Copy)]
pub(crate) struct Guarantees {
    /// Waiters are admitted in the order in which they joined, whichever is polled first.
    pub(crate) order: bool,
    /// A newcomer cannot take the grant of a waiter that has not run yet.
    pub(crate) no_overtaking: bool,
    /// Two permits that come back at once wake two waiters; otherwise the second waiter is woken
    /// when the first has run.
    pub(crate) wakes_each: bool,
    /// A permit is held, and makes room when it is dropped; otherwise only `rollback` does.
    pub(crate) held: bool,
    /// It knows the length of a wait, and refuses at once a wait that ends after its deadline.
    pub(crate) knows: bool,
    /// It can be closed, and then wakes and refuses all callers.
    pub(crate) closes: bool,
    /// Nobody enters after the close has returned; otherwise a permit that was granted before may
    /// still go to a newcomer.
    pub(crate) closes_at_once: bool,
    /// A waker that panics is contained.
    pub(crate) contains_panics: bool,
    /// Wakers are called and dropped outside of its locks.
    pub(crate) polled_by_wakers: bool,
}

impl Guarantees {
    pub(crate) const ALL: Self = Self {
        order: true,
        no_overtaking: true,
        wakes_each: true,
        held: true,
        knows: false,
        closes: true,
        closes_at_once: true,
        contains_panics: true,
        polled_by_wakers: true,
    };
}

/// A throttle of any type, which can be cloned, tried, closed, and entered with a cost.
pub(crate) struct AnyThrottle {
    inner: Box<dyn Erased>,
    close: Arc<dyn Fn() + Send + Sync>,
    cost: Arc<dyn Fn(u64) -> Self + Send + Sync>,
}

/// The wait of any throttle.
pub(crate) type Wait = Waiting<AnyEnter>;

pub(crate) type AnyEnter = Pin<Box<dyn Future<Output = Entered> + Send>>;

pub(crate) type Entered = Result<AnyPermit, AcquireError>;

/// The permit of any throttle, whose drop drops that permit.
#[derive(Debug)]
pub(crate) struct AnyPermit(Box<dyn Permit>);

trait Permit: Any + Debug + Send {}

impl<P: Any + Debug + Send> Permit for P {}

/// A throttle, or another type that admits callers.
pub(crate) trait Erased: Send + Sync {
    fn cloned(&self) -> Box<dyn Erased>;
    fn try_enter_any(&self) -> Entered;
    fn enter_any(&self) -> AnyEnter;
    fn enter_now_any(&self) -> Option<AnyPermit>;
    fn rollback_any(&self, permit: AnyPermit);
    fn polling_any(&self) -> Polling;

    /// Blocks the thread.
    fn wait(&self) -> Entered {
        Waiting::new(self.enter_any()).wait()
    }

    /// Begins to wait, and gives up as soon as it would have to.
    fn wait_briefly(&self) -> Option<AnyPermit> {
        let mut waiter = Waiter::new(self.enter_any());
        match waiter.poll() {
            Poll::Ready(entered) => entered.ok(),
            Poll::Pending => {
                // The pause keeps it in the queue for a while.
                std::thread::yield_now();
                None
            }
        }
    }
}

impl<T> Erased for T
where
    T: TryThrottle<Permit: Debug + Send + 'static, Enter: Send + 'static> + Send + Sync + 'static,
{
    fn cloned(&self) -> Box<dyn Erased> {
        Box::new(self.clone())
    }

    fn try_enter_any(&self) -> Entered {
        TryThrottle::try_enter(self).map(AnyPermit::new)
    }

    fn enter_any(&self) -> AnyEnter {
        Box::pin(EnterAny(Box::pin(Throttle::enter(self).into_inner())))
    }

    fn enter_now_any(&self) -> Option<AnyPermit> {
        Throttle::enter_now(self).map(AnyPermit::new)
    }

    fn rollback_any(&self, permit: AnyPermit) {
        Throttle::rollback(self, permit.into());
    }

    fn polling_any(&self) -> Polling {
        Throttle::polling(self)
    }
}

/// It leaves later polls and the drop to the inner future.
struct EnterAny<F>(Pin<Box<F>>);

impl<P: Permit, F: Future<Output = Result<P, AcquireError>>> Future for EnterAny<F> {
    type Output = Entered;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Entered> {
        self.0.as_mut().poll(context).map_ok(AnyPermit::new)
    }
}

impl AnyPermit {
    pub(crate) fn new(permit: impl Any + Debug + Send) -> Self {
        Self(Box::new(permit))
    }

    /// Returns the permit itself.
    fn into<P: 'static>(self) -> P {
        let permit: Box<dyn Any> = self.0;
        *permit.downcast().expect("its own permit")
    }
}

impl AnyThrottle {
    /// Wraps a throttle that another one closes, and that has no costs.
    pub(crate) fn new(inner: impl Erased + 'static) -> Self {
        Self {
            inner: Box::new(inner),
            close: Arc::new(|| unreachable!("it cannot be closed")),
            cost: Arc::new(|_| unreachable!("it has no costs")),
        }
    }

    /// The same with costs.
    pub(crate) fn weighted<T>(inner: T) -> Self
    where
        T: Weighted<Many: Erased + 'static> + Erased + 'static,
    {
        let weighted = inner.clone();
        let cost = move |cost| Self::new(weighted.cost(cost));
        Self {
            cost: Arc::new(cost),
            ..Self::new(inner)
        }
    }

    pub(crate) fn closed_by(self, close: impl Fn() + Send + Sync + 'static) -> Self {
        let close = Arc::new(close);
        Self { close, ..self }
    }

    /// Closes it. Not called unless closing is guaranteed.
    pub(crate) fn close(&self) {
        (self.close)();
    }

    pub(crate) fn wait(&self) -> Entered {
        self.inner.wait()
    }

    pub(crate) fn wait_briefly(&self) -> Option<AnyPermit> {
        self.inner.wait_briefly()
    }

    pub(crate) fn rollback_all(&self, permits: impl IntoIterator<Item = AnyPermit>) {
        for permit in permits {
            self.rollback(permit);
        }
    }
}

impl Clone for AnyThrottle {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.cloned(),
            close: Arc::clone(&self.close),
            cost: Arc::clone(&self.cost),
        }
    }
}

impl Throttle for AnyThrottle {
    type Permit = AnyPermit;
    type Enter = AnyEnter;

    fn enter(&self) -> Wait {
        Waiting::new(self.inner.enter_any())
    }

    fn enter_now(&self) -> Option<AnyPermit> {
        self.inner.enter_now_any()
    }

    fn rollback(&self, permit: AnyPermit) {
        self.inner.rollback_any(permit);
    }

    fn polling(&self) -> Polling {
        self.inner.polling_any()
    }
}

impl TryThrottle for AnyThrottle {
    fn try_enter(&self) -> Entered {
        self.inner.try_enter_any()
    }
}

impl Weighted for AnyThrottle {
    type Many = Self;

    fn cost(&self, n: u64) -> Self {
        (self.cost)(n)
    }

    fn settle(&self, _: AnyPermit, _: u64) {
        unreachable!("no check settles");
    }

    fn max_units(&self) -> u64 {
        unreachable!("no check asks");
    }
}

/// Returns a waiter in the queue.
#[track_caller]
pub(crate) fn parked(throttle: &AnyThrottle) -> Waiter<Wait> {
    Waiter::parked(throttle.enter())
}

/// Takes every available permit.
#[track_caller]
pub(crate) fn fill(throttle: &AnyThrottle, limit: usize) -> Vec<AnyPermit> {
    let permits = (0..limit).map(|_| throttle.try_enter().expect("there is room"));
    permits.collect()
}

/// Asserts a refusal because there is no room at the moment.
#[track_caller]
pub(crate) fn assert_no_room(tried: Entered) {
    let kind = tried.expect_err("it was let in").kind();
    assert!(
        matches!(kind, ErrorKind::NoPermits | ErrorKind::RateLimited),
        "{kind:?}"
    );
}

/// Asserts that there are no holders and no waiters, and that the whole limit is available, and no
/// more.
#[track_caller]
pub(crate) fn assert_at_rest(throttle: &AnyThrottle, limit: usize) {
    let permits = fill(throttle, limit);
    assert_no_room(throttle.try_enter());
    throttle.rollback_all(permits);
}
