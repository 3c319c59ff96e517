//! [`WeightedAll`]: a composition each of whose parts takes the weight of the call.

use super::{All, Inspect, Polling, Throttle, TryThrottle, Weighted};
use crate::error::AcquireError;
use crate::status::LimitStatus;
use crate::wait::Waiting;

impl<P> All<P> {
    /// Makes a composition that is [`Weighted`]: **every part takes the weight** of the call. A part that counts calls is
    /// [`per_call`](super::ThrottleExt::per_call). So a fair queue, a reader or a sink in front of the
    /// composition can pass weights on.
    ///
    /// A call may ask for as much as every part allows: in `all((&slots, &bytes)).weighted()` a call of
    /// 65,536 bytes asks for 65,536 slots too, and is refused with
    /// [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity).
    ///
    /// # Examples
    ///
    /// At most 8 messages at once, and 64 KiB of them:
    ///
    /// ```
    /// use tollgate::throttle::{ThrottleExt, Weighted};
    /// use tollgate::{ErrorKind, Semaphore, TryThrottle, all};
    ///
    /// let (slots, bytes) = (Semaphore::new(8), Semaphore::new(65_536));
    /// let limits = all(((&slots).per_call(), &bytes)).weighted();
    /// let (slot, of_bytes) = limits.cost(4_096).try_enter()?;
    /// assert_eq!((slot.count(), of_bytes.count()), (1, 4_096));
    /// assert_eq!(limits.max_units(), 65_536);
    ///
    /// let each = all((&slots, &bytes)).weighted();
    /// let refused = each.cost(4_096).try_enter().unwrap_err();
    /// assert_eq!((refused.kind(), refused.part()), (ErrorKind::ExceedsCapacity, Some(0)));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn weighted(self) -> WeightedAll<P>
    where
        WeightedAll<P>: Weighted,
    {
        WeightedAll(self)
    }
}

/// A composition each of whose parts takes the weight of the call; created by [`All::weighted`].
///
/// Order, cancel safety and errors are those of [`all`](crate::all). The largest amount of a call and the size of
/// a chunk are the smallest of the parts.
#[derive(Clone, Debug)]
#[must_use = "a throttle does nothing until it is entered"]
pub struct WeightedAll<P>(All<P>);

macro_rules! parts {
    ($($part:ident $permit:ident $index:tt),+) => {
        impl<$($part: Weighted),+> Throttle for WeightedAll<($($part,)+)> {
            type Permit = ($($part::Permit,)+);
            type Enter = <All<($($part::Many,)+)> as Throttle>::Enter;

            #[inline]
            fn enter(&self) -> Waiting<Self::Enter> {
                self.cost(1).enter()
            }

            #[inline]
            fn enter_now(&self) -> Option<Self::Permit> {
                self.cost(1).enter_now()
            }

            #[inline]
            fn rollback(&self, permit: Self::Permit) {
                self.0.rollback(permit);
            }

            fn polling(&self) -> Polling {
                self.0.polling()
            }
        }

        impl<$($part: Weighted<Many: TryThrottle>),+> TryThrottle for WeightedAll<($($part,)+)> {
            #[inline]
            fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
                self.cost(1).try_enter()
            }
        }

        impl<$($part: Weighted),+> Weighted for WeightedAll<($($part,)+)> {
            type Many = All<($($part::Many,)+)>;

            #[inline]
            fn cost(&self, n: u64) -> Self::Many {
                All(($(self.0.0.$index.cost(n),)+))
            }

            #[inline]
            fn settle(&self, ($($permit,)+): Self::Permit, used: u64) {
                $(self.0.0.$index.settle($permit, used);)+
            }

            fn max_units(&self) -> u64 {
                u64::MAX$(.min(self.0.0.$index.max_units()))+
            }

            fn chunk_units(&self) -> u64 {
                u64::MAX$(.min(self.0.0.$index.chunk_units()))+
            }
        }
    };
}

parts!(A a 0);
parts!(A a 0, B b 1);
parts!(A a 0, B b 1, C c 2);
parts!(A a 0, B b 1, C c 2, D d 3);
parts!(A a 0, B b 1, C c 2, D d 3, E e 4);
parts!(A a 0, B b 1, C c 2, D d 3, E e 4, F f 5);

impl<P> Inspect for WeightedAll<P>
where
    All<P>: Inspect,
    Self: Throttle<Permit = <All<P> as Throttle>::Permit>,
{
    const LIMITS: usize = <All<P> as Inspect>::LIMITS;

    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        self.0.inspect(permit, each);
    }
}
