//! A gate as a throttle: by value, because its handle is cheap to clone.

use super::{Acquire, Gate};
use crate::error::AcquireError;
use crate::limit_status::LimitStatus;
use crate::throttle::{Inspect, Throttle, TryThrottle, handles};
use crate::wait::Waiting;

impl Throttle for Gate {
    type Permit = ();
    type Enter = Acquire<Self>;

    #[inline]
    fn enter(&self) -> Waiting<Acquire<Self>> {
        self.acquire_owned()
    }

    handles!(enter_now);
    handles!(wakes_outside_locks);
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
