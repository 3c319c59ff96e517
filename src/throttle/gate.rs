//! A gate as a throttle: its handle is cheap to clone, so it is one by value.

use super::{Throttle, TryThrottle};
use crate::error::AcquireError;
use crate::gate::{AcquireOwned, Gate};
use crate::wait::Waiting;

impl Throttle for Gate {
    type Permit = ();
    type Enter = AcquireOwned;

    #[inline]
    fn enter(&self) -> Waiting<AcquireOwned> {
        self.acquire_owned()
    }
}

impl TryThrottle for Gate {
    #[inline]
    fn try_enter(&self) -> Result<(), AcquireError> {
        self.check()
    }
}
