//! A limiter on a server as a throttle, for `all`, streams and the tower layer.

use tollgate::{Throttle, Waiting};

use super::acquire::Acquire;
use super::charge::Charge;
use super::limiter::RateLimiter;

impl Throttle for RateLimiter {
    type Permit = Charge;
    type Enter = Acquire;

    fn enter(&self) -> Waiting<Acquire> {
        self.acquire()
    }

    fn rollback(&self, charge: Charge) {
        self.refund_later(charge);
    }
}
