//! A gate as a throttle: by value, because its handle is cheap to clone.

use super::{Acquire, Gate};
use crate::error::AcquireError;
use crate::limit_status::LimitStatus;
use crate::throttle::{Inspect, Throttle, TryThrottle};
use crate::wait::Waiting;

impl Throttle for Gate {
    type Permit = ();
    type Enter = Acquire<Self>;

    #[inline]
    fn enter(&self) -> Waiting<Acquire<Self>> {
        self.acquire_owned()
    }

    #[inline]
    fn enter_now(&self) -> Option<()> {
        self.check().ok()
    }

    fn wakes_outside_locks(&self) -> bool {
        true
    }
}

impl TryThrottle for Gate {
    #[inline]
    fn try_enter(&self) -> Result<(), AcquireError> {
        self.check()
    }
}

/// Nothing is said about a gate.
impl Inspect for Gate {
    fn inspect(&self, _: Option<&()>, each: &mut dyn FnMut(usize, LimitStatus)) {
        each(0, LimitStatus::Unknown);
    }
}
