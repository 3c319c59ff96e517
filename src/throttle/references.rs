//! A reference to a throttle, and an `Arc` of one, are that throttle.
//!
//! For a type whose references and `Arc`s are throttles, but not the type itself, such as
//! [`Semaphore`](crate::Semaphore), this adds a second layer: `&Arc<Semaphore>`.

use std::sync::Arc;

use super::{Adaptive, Inspect, Throttle, TryThrottle, Weighted};
use crate::error::AcquireError;
use crate::feedback::Feedback;
use crate::limit_status::LimitStatus;

macro_rules! references {
    ($([$($lifetime:lifetime,)? $throttle:ident] $reference:ty;)*) => {$(
        impl<$($lifetime,)? $throttle: Throttle> Throttle for $reference {
            type Permit = $throttle::Permit;
            type Enter = $throttle::Enter;

            crate::forward!(Throttle, self => **self);
        }

        impl<$($lifetime,)? $throttle: TryThrottle> TryThrottle for $reference {
            #[inline]
            fn try_enter(&self) -> Result<$throttle::Permit, AcquireError> {
                (**self).try_enter()
            }
        }

        impl<$($lifetime,)? $throttle: Weighted> Weighted for $reference {
            type Many = $throttle::Many;

            crate::forward!(Weighted, self => **self);
        }

        impl<$($lifetime,)? $throttle: Inspect> Inspect for $reference {
            const LIMITS: usize = $throttle::LIMITS;

            fn inspect(
                &self,
                permit: Option<&Self::Permit>,
                each: &mut dyn FnMut(usize, LimitStatus),
            ) {
                (**self).inspect(permit, each);
            }
        }

        impl<$($lifetime,)? $throttle: Adaptive> Adaptive for $reference {
            fn learn(&self, permit: &mut Self::Permit, feedback: Feedback) {
                (**self).learn(permit, feedback);
            }
        }
    )*};
}

references! {
    ['a, T] &'a T;
    [T] Arc<T>;
}
