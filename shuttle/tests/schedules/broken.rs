//! Tests a broken semaphore: the harness finds the bug, and replays it.

use std::any::Any;
use std::future::Future;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use shuttle::scheduler::RandomScheduler;
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind, Throttle, TryThrottle};

use crate::driver::{Scenario, Subject, replay, run};

/// One permit, which is free or not, and a queue. It loses a wake-up: if a permit comes back after a
/// caller has found none, and before the caller has joined the queue, nothing is woken. It also has no order.
#[derive(Clone)]
struct Loses(Arc<(AtomicUsize, Mutex<Vec<Waker>>)>);

struct Permit(Loses);

impl Drop for Permit {
    fn drop(&mut self) {
        let (free, queue) = &*self.0.0;
        free.store(1, Ordering::SeqCst);
        let next = queue.lock().unwrap().pop();
        next.into_iter().for_each(Waker::wake);
    }
}

impl Throttle for Loses {
    type Permit = Permit;
    type Enter = Pin<Box<dyn Future<Output = Result<Permit, AcquireError>> + Send>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        let throttle = self.clone();
        Waiting::new(Box::pin(poll_fn(move |context| {
            if let Ok(permit) = throttle.try_enter() {
                return Poll::Ready(Ok(permit));
            }
            let waker = context.waker().clone();
            throttle.0.1.lock().unwrap().push(waker);
            Poll::Pending
        })))
    }
}

impl TryThrottle for Loses {
    fn try_enter(&self) -> Result<Permit, AcquireError> {
        match self.0.0.swap(0, Ordering::SeqCst) {
            0 => Err(AcquireError::new(ErrorKind::NoPermits)),
            _ => Ok(Permit(self.clone())),
        }
    }
}

impl Subject for Loses {
    type Throttle = Self;

    const MOST_COST: u32 = 1;
    const HAS_LIMIT: bool = false;
    const CAN_CLOSE: bool = false;

    fn new() -> Self {
        Self(Arc::new((AtomicUsize::new(1), Mutex::default())))
    }

    fn throttle(&self, _: u32, _: u32) -> Self {
        self.clone()
    }

    fn most_in(&self, _: u32) -> u64 {
        1
    }

    fn assert_at_rest(&self, _: u64) {
        assert_eq!(self.0.0.load(Ordering::SeqCst), 1);
    }
}

/// Returns the message of the failure, if the check fails.
fn failure(check: impl FnOnce()) -> Option<String> {
    let panic: Box<dyn Any + Send> = catch_unwind(AssertUnwindSafe(check)).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| Some((*panic.downcast_ref::<&str>()?).into()))
}

#[test]
fn semaphore_that_loses_a_wake_up_or_admits_newcomers_first_is_found_and_replayed() {
    for fault in ["deadlock", "has passed"] {
        let fails_with = |seed: u64| {
            let scenario = Scenario::<Loses>::run;
            let failed = failure(|| run(RandomScheduler::new_from_seed(seed, 1), scenario))?;
            failed.contains(fault).then_some((seed, failed))
        };
        let (seed, failed) = (0..1000).find_map(fails_with).expect(fault);
        let again = failure(|| replay(Scenario::<Loses>::run, &seed.to_string()));
        assert_eq!(again, Some(failed));
    }
}
