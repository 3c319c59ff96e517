//! [`DriverSlot`]: where the first waiter of a queue polls the driver.
//!
//! 1. A caller who finds the queue empty polls the driver as a part of its own wait, so a decision
//!    for one caller is a call and no task.
//! 2. As soon as another caller comes, or that one leaves, the driver is handed over to a task:
//!    nobody ever depends on another caller being polled.
//! 3. The driver is in one place: it is taken out to be polled, and then put back, handed over, or
//!    over.
//!
//! The lock is a leaf, and is not held while the driver is polled or dropped.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll};

use crate::sync::Mutex;

pub(crate) struct DriverSlot<F>(Mutex<Place<F>>);

struct Place<F> {
    /// The number of the driver that is here, or was.
    number: u64,
    driver: Driver<F>,
}

enum Driver<F> {
    None,
    Here(F),
    Polled { hand_over: bool },
}

impl<F: Future<Output = ()> + Unpin> DriverSlot<F> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Place {
            number: 0,
            driver: Driver::None,
        }))
    }

    fn with<R>(&self, change: impl FnOnce(&mut Place<F>) -> R) -> R {
        // Nothing panics while it is held.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts a driver here, and returns the number by which it is polled. Returns the driver if the one
    /// before is still being polled.
    pub(crate) fn put(&self, driver: F) -> Result<u64, F> {
        self.with(|place| match place.driver {
            Driver::None => {
                place.number += 1;
                place.driver = Driver::Here(driver);
                Ok(place.number)
            }
            Driver::Here(_) | Driver::Polled { .. } => Err(driver),
        })
    }

    /// Polls the driver with that number, if it is here. Returns whether it stays, and the driver if it
    /// is to become a task.
    pub(crate) fn poll(&self, number: u64, context: &mut Context<'_>) -> (bool, Option<F>) {
        let polled = Driver::Polled { hand_over: false };
        let taken = self.with(|place| match place.driver {
            Driver::Here(_) if place.number == number => mem::replace(&mut place.driver, polled),
            _ => Driver::None,
        });
        let Driver::Here(mut driver) = taken else {
            return (false, None);
        };
        let is_over = Pin::new(&mut driver).poll(context) == Poll::Ready(());
        // Dropped, if it is over, after the lock.
        let mut driver = Some(driver);
        let stays = self.with(|place| {
            let hand_over = matches!(place.driver, Driver::Polled { hand_over: true });
            place.driver = Driver::None;
            let stays = !is_over && !hand_over;
            if let Some(driver) = driver.take_if(|_| stays) {
                place.driver = Driver::Here(driver);
            }
            stays
        });
        (stays, driver.filter(|_| !is_over))
    }

    /// Hands the driver over, now or at the end of the poll that is going on.
    pub(crate) fn hand_over(&self, number: Option<u64>) -> Option<F> {
        self.with(|place| {
            if number.is_some_and(|number| number != place.number) {
                return None;
            }
            match mem::replace(&mut place.driver, Driver::None) {
                Driver::None => None,
                Driver::Here(driver) => Some(driver),
                Driver::Polled { .. } => {
                    place.driver = Driver::Polled { hand_over: true };
                    None
                }
            }
        })
    }
}
