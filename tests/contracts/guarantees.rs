//! The table in `tollgate::guarantees`, as far as it is not held true elsewhere.
//!
//! | row | held true by |
//! |---|---|
//! | overtaking, `close`, how a wait ends, two at once, blocking a thread, the holder panics | `conformance.rs` |
//! | two at once, of `CondvarSemaphore` | `failures/handed_on.rs` |
//! | weight, the limit, bounded line, `wait_idle` | `semaphore.rs`, `foreign_semaphores.rs` |
//! | a limit of 0 | `panics.rs`, `semaphore.rs`, `foreign_semaphores.rs` |
//! | idle items, items of holders that panicked | `pool.rs` |
//! | a waker panics | the file of each type |
//! | allocations | `allocations.rs` |
//! | a gate and a detector | `gate.rs`, `detector.rs`, `detector_memory.rs` |
//! | statics, throttles, `Unpin`, and how strict an order is | this file, most of it when compiled |

use std::marker::PhantomData;
use std::sync::Arc;

use tollgate::{
    Acquire, AcquireOwned, CondvarSemaphore, Gate, Semaphore, Throttle, TryThrottle, gate,
};

/// A type with an associated constant that is `true` if the bounds are met: the inherent constant
/// hides that of the blanket implementation then.
macro_rules! probe {
    ($probe:ident: $($bound:tt)*) => {
        struct $probe<T>(PhantomData<T>);

        impl<T: $($bound)*> $probe<T> {
            const ANSWER: bool = true;
        }

        impl<T> Otherwise for $probe<T> {}
    };
}

trait Otherwise {
    const ANSWER: bool = false;
}

probe!(IsThrottle: Throttle + TryThrottle);
probe!(IsUnpin: Unpin);

macro_rules! every {
    ($probe:ident is $answer:literal for $($type:ty),+ $(,)?) => {
        const _: () = {
            $(assert!($probe::<$type>::ANSWER == $answer, stringify!($type));)+
        };
    };
}

every!(IsThrottle is true for &'static Semaphore, Arc<Semaphore>);
every!(IsThrottle is false for
    &'static CondvarSemaphore, Arc<CondvarSemaphore>, Semaphore, CondvarSemaphore
);
every!(IsUnpin is true for Acquire<&'static Semaphore>, AcquireOwned);

every!(IsThrottle is true for Gate, &'static Gate, Arc<Gate>);
every!(IsUnpin is true for gate::Acquire<&'static Gate>, gate::AcquireOwned);

#[test]
fn a_semaphore_may_be_a_static() {
    static SEMAPHORE: Semaphore = Semaphore::new(1);
    assert!((&SEMAPHORE).try_enter().is_ok());
}

mod pools {
    use tollgate::{Pool, pool};

    use super::*;

    type NotSend = std::rc::Rc<()>;
    every!(IsThrottle is true for
        &'static Pool<()>, Arc<Pool<String>>, &'static Pool<NotSend>, Arc<Pool<NotSend>>
    );
    every!(IsUnpin is true for pool::AcquireOwned<()>, pool::Acquire<&'static Pool<()>, ()>);
}

#[cfg(feature = "channel")]
mod channels {
    use tollgate::{ChannelSemaphore, channel_semaphore};

    use super::*;

    every!(IsThrottle is true for &'static ChannelSemaphore, Arc<ChannelSemaphore>);
    every!(IsUnpin is true for
        channel_semaphore::AcquireOwned, channel_semaphore::Acquire<&'static ChannelSemaphore>
    );
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use tollgate::throttle::{EnterTokio, EnterTokioOwned};

    use super::*;

    every!(IsThrottle is true for &'static tokio::sync::Semaphore, Arc<tokio::sync::Semaphore>);
    every!(IsUnpin is true for EnterTokio<'static>, EnterTokioOwned);

    #[test]
    fn the_one_of_tokio_may_be_a_static() {
        static SEMAPHORE: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(1);
        assert!((&SEMAPHORE).try_enter().is_ok());
    }
}

#[cfg(feature = "async-lock")]
mod with_async_lock {
    use tollgate::throttle::{EnterAsyncLock, EnterAsyncLockOwned};

    use super::*;

    every!(IsThrottle is true for &'static async_lock::Semaphore, Arc<async_lock::Semaphore>);
    every!(IsUnpin is false for EnterAsyncLock<'static>, EnterAsyncLockOwned);

    #[test]
    fn the_one_of_async_lock_may_be_a_static() {
        static SEMAPHORE: async_lock::Semaphore = async_lock::Semaphore::new(1);
        assert!((&SEMAPHORE).try_enter().is_ok());
    }
}

/// Ten wait in line, and one permit goes round. Each is polled when it has been woken, as an
/// executor does, those first who came first. Returns who was let in, in that order.
fn order_without_newcomers<T: TryThrottle>(throttle: &T) -> Vec<usize> {
    let mut permit = throttle.try_enter().ok();
    let mut line: Vec<_> = (0..10)
        .map(|name| {
            let mut waiter = crate::support::Waiter::new(throttle.enter());
            assert!(waiter.is_pending());
            (name, waiter, 0)
        })
        .collect();
    let mut order = Vec::new();
    while !line.is_empty() {
        drop(permit.take());
        line.retain_mut(|(name, waiter, seen)| {
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
fn the_order_of_a_semaphore_is_strict() {
    let semaphore = Semaphore::new(1);
    let order = order_without_newcomers(&&semaphore);
    assert!(order.is_sorted());
}

#[test]
fn the_order_of_a_pool_is_strict() {
    let pool = Arc::new(tollgate::Pool::new([()]));
    assert!(order_without_newcomers(&&*pool).is_sorted());
    assert!(order_without_newcomers(&pool).is_sorted());
}

#[cfg(feature = "tokio")]
#[test]
fn the_order_of_tokio_is_strict() {
    let semaphore = Arc::new(tokio::sync::Semaphore::new(1));
    assert!(order_without_newcomers(&semaphore).is_sorted());
}

/// Even if nobody overtakes. Whoever is let in wakes the next one as well, which finds nothing and
/// then waits again behind all others.
#[cfg(any(feature = "channel", feature = "async-lock"))]
#[track_caller]
fn assert_rough(mut order: Vec<usize>) {
    assert_eq!(order[0], 0);
    assert!(!order.is_sorted());
    order.sort();
    assert_eq!(order, Vec::from_iter(0..10));
}

#[cfg(feature = "channel")]
#[test]
fn the_order_of_a_channel_is_rough() {
    use tollgate::ChannelSemaphore;
    for semaphore in [ChannelSemaphore::new(1), ChannelSemaphore::reversed(1)] {
        let semaphore = Arc::new(semaphore);
        assert_rough(order_without_newcomers(&&*semaphore));
        assert_rough(order_without_newcomers(&semaphore));
    }
}

#[cfg(feature = "async-lock")]
#[test]
fn the_order_of_async_lock_is_rough() {
    let semaphore = Arc::new(async_lock::Semaphore::new(1));
    assert_rough(order_without_newcomers(&&*semaphore));
    assert_rough(order_without_newcomers(&semaphore));
}
