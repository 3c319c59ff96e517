//! The table in `tollgate::guarantees`, as far as it is not held true elsewhere.
//!
//! | row | held true by |
//! |---|---|
//! | order, overtaking, `close`, how a wait ends, two at once, wakers that panic, the holder panics | `conformance/` |
//! | two at once, of `CondvarSemaphore` | the model `two_releases_wake_two` |
//! | weight, the limit, a bounded queue, `wait_idle` | `concurrency/model/`, `concurrency/foreign_semaphores.rs` |
//! | a limit of 0 | `panics/`, `concurrency/model/`, `concurrency/foreign_semaphores.rs` |
//! | wakers that poll at once | `failures/nested_wakes.rs` |
//! | idle items, items of holders that panicked, `wait_idle` of a pool | `concurrency/pool/` |
//! | allocations | `memory/` |
//! | a gate | `adapters/gate/` |
//! | a fair queue | `conformance/`, `adapters/fair/` |
//! | `Unpin` | `auto_traits.rs` |
//! | statics, throttles, and how rough an order is | this file |

use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use tollgate::{CondvarSemaphore, Gate, Pool, Semaphore, Throttle, TryThrottle};

/// A type with an associated constant that is `true` if it is a throttle: the inherent constant hides
/// that of the blanket implementation then.
struct IsThrottle<T>(PhantomData<T>);

impl<T: Throttle + TryThrottle> IsThrottle<T> {
    const ANSWER: bool = true;
}

impl<T> Otherwise for IsThrottle<T> {}

trait Otherwise {
    const ANSWER: bool = false;
}

macro_rules! throttles {
    ($answer:literal for $($type:ty),+ $(,)?) => {
        const _: () = {
            $(assert!(IsThrottle::<$type>::ANSWER == $answer, stringify!($type));)+
        };
    };
}

throttles!(true for
    &'static Semaphore, Arc<Semaphore>, Gate, &'static Gate, Arc<Gate>,
    &'static Pool<()>, Arc<Pool<String>>, &'static Pool<Rc<()>>, Arc<Pool<Rc<()>>>
);
throttles!(false for
    &'static CondvarSemaphore, Arc<CondvarSemaphore>, Semaphore, CondvarSemaphore
);
#[cfg(feature = "channel")]
throttles!(true for &'static tollgate::ChannelSemaphore, Arc<tollgate::ChannelSemaphore>);
#[cfg(feature = "tokio")]
throttles!(true for &'static tokio::sync::Semaphore, Arc<tokio::sync::Semaphore>);
#[cfg(feature = "async-lock")]
throttles!(true for &'static async_lock::Semaphore, Arc<async_lock::Semaphore>);

#[test]
fn a_semaphore_may_be_a_static() {
    static OURS: Semaphore = Semaphore::new(1);
    assert!((&OURS).try_enter().is_ok());
    #[cfg(feature = "tokio")]
    {
        static TOKIOS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(1);
        assert!((&TOKIOS).try_enter().is_ok());
    }
    #[cfg(feature = "async-lock")]
    {
        static ASYNC_LOCKS: async_lock::Semaphore = async_lock::Semaphore::new(1);
        assert!((&ASYNC_LOCKS).try_enter().is_ok());
    }
}

/// Ten wait, and one permit goes round. Each is polled when it has been woken, as an
/// executor does, those first who came first. Returns who was let in, in that order.
fn order_without_newcomers<T: TryThrottle>(throttle: &T) -> Vec<usize> {
    let mut permit = throttle.try_enter().ok();
    let mut waiters: Vec<_> = (0..10)
        .map(|name| {
            let mut waiter = crate::support::Waiter::new(throttle.enter());
            assert!(waiter.is_pending());
            (name, waiter, 0)
        })
        .collect();
    let mut order = Vec::new();
    while !waiters.is_empty() {
        drop(permit.take());
        waiters.retain_mut(|(name, waiter, seen)| {
            if waiter.wakes() == *seen {
                return true;
            }
            *seen = waiter.wakes();
            let std::task::Poll::Ready(entered) = waiter.poll() else {
                return true;
            };
            assert!(permit.is_none(), "two are inside");
            permit = entered.ok();
            order.push(*name);
            false
        });
    }
    order
}

#[test]
fn the_order_of_semaphores_and_pools_is_strict() {
    assert!(order_without_newcomers(&&Semaphore::new(1)).is_sorted());
    assert!(order_without_newcomers(&&Pool::new([()])).is_sorted());
    #[cfg(feature = "tokio")]
    assert!(order_without_newcomers(&&tokio::sync::Semaphore::new(1)).is_sorted());
}

/// Even if nobody overtakes. An admitted waiter wakes the next one as well, which finds nothing and
/// then waits again behind all others.
#[cfg(any(feature = "channel", feature = "async-lock"))]
#[track_caller]
fn assert_rough(mut order: Vec<usize>) {
    assert_eq!(order[0], 0);
    assert!(!order.is_sorted());
    order.sort();
    assert_eq!(order, Vec::from_iter(0..10));
}

#[cfg(any(feature = "channel", feature = "async-lock"))]
#[test]
fn the_order_of_channels_and_of_async_lock_is_rough() {
    #[cfg(feature = "channel")]
    for make in [
        tollgate::ChannelSemaphore::new,
        tollgate::ChannelSemaphore::reversed,
    ] {
        assert_rough(order_without_newcomers(&&make(1)));
    }
    #[cfg(feature = "async-lock")]
    assert_rough(order_without_newcomers(&&async_lock::Semaphore::new(1)));
}
