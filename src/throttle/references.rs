//! A reference to a throttle is a throttle, and so is an `Arc` of one.
//!
//! For types whose references and `Arc`s are throttles, but not the type itself, such as
//! [`Semaphore`](crate::Semaphore), this adds a second layer: `&Arc<Semaphore>`.

use std::sync::Arc;

use super::{Throttle, TryThrottle};
use crate::error::AcquireError;
use crate::wait::Waiting;

macro_rules! throttle {
    ([$($lifetime:lifetime,)? $throttle:ident] $reference:ty) => {
        impl<$($lifetime,)? $throttle: Throttle> Throttle for $reference {
            type Permit = $throttle::Permit;
            type Enter = $throttle::Enter;

            #[inline]
            fn enter(&self) -> Waiting<$throttle::Enter> {
                (**self).enter()
            }

            #[inline]
            fn rollback(&self, permit: $throttle::Permit) {
                (**self).rollback(permit);
            }
        }

        impl<$($lifetime,)? $throttle: TryThrottle> TryThrottle for $reference {
            #[inline]
            fn try_enter(&self) -> Result<$throttle::Permit, AcquireError> {
                (**self).try_enter()
            }
        }
    };
}

throttle!(['a, T] &'a T);
throttle!([T] Arc<T>);
