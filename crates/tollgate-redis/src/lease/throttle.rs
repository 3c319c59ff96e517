//! A semaphore on a server as a throttle, for `all`, streams and the tower layer.

use tollgate::{Throttle, Waiting};

use super::acquire::AcquireLease;
use super::guard::Lease;
use super::semaphore::Semaphore;

impl Throttle for Semaphore {
    type Permit = Lease;
    type Enter = AcquireLease;

    fn enter(&self) -> Waiting<AcquireLease> {
        self.acquire()
    }
}
