//! A limiter on a server as a throttle, for `all`, streams and the tower layer.

use tollgate::Throttle;

use super::acquire::Acquire;
use super::charge::Charge;
use super::limiter::RateLimiter;

impl Throttle for RateLimiter {
    type Permit = Charge;
    type Enter = Acquire;

    fn enter(&self) -> Acquire {
        self.acquire()
    }

    fn undo(&self, charge: Charge) {
        self.refund_later(charge);
    }
}
