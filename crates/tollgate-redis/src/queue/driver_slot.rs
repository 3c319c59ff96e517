//! [`DriverSlot`]: the place where the first waiter of a queue polls the driver.
//!
//! 1. A caller that finds the queue empty polls the driver as a part of its own wait, so a decision
//!    for a single caller needs one call and no task.
//! 2. When another caller joins, or the first one leaves, the driver is handed over to a task: no
//!    caller ever depends on the polls of another caller.
//! 3. The driver is in one place: a poll takes it out of the slot, and then puts it back, hands it
//!    over, or finishes it.
//!
//! The lock is a leaf, and is not held while the driver is polled or dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll};

use crate::sync::Mutex;

pub(crate) struct DriverSlot<F>(Mutex<Place<F>>);

struct Place<F> {
    /// The number of the current driver, or of the last one.
    number: u64,
    /// The driver, unless it is being polled.
    driver: Option<F>,
    is_polled: bool,
    /// The driver has to become a task at the end of the current poll.
    hand_over: bool,
}

impl<F: Future<Output = ()> + Unpin> DriverSlot<F> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Place {
            number: 0,
            driver: None,
            is_polled: false,
            hand_over: false,
        }))
    }

    fn with<R>(&self, change: impl FnOnce(&mut Place<F>) -> R) -> R {
        // No code panics while it holds this lock.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stores a driver, and returns the number with which it is polled. Returns the driver if the
    /// one before is still being polled.
    pub(crate) fn put(&self, driver: F) -> Result<u64, F> {
        self.with(|place| {
            if place.is_polled || place.driver.is_some() {
                return Err(driver);
            }
            place.number += 1;
            place.driver = Some(driver);
            Ok(place.number)
        })
    }

    /// Polls the driver with that number, if it is in the slot. Returns whether it stays, and the
    /// driver if it has to become a task.
    pub(crate) fn poll(&self, number: u64, context: &mut Context<'_>) -> (bool, Option<F>) {
        let taken = self.with(|place| {
            let driver = place.driver.take_if(|_| place.number == number)?;
            (place.is_polled, place.hand_over) = (true, false);
            Some(driver)
        });
        let Some(mut driver) = taken else {
            return (false, None);
        };
        let is_over = Pin::new(&mut driver).poll(context) == Poll::Ready(());
        // A finished driver is dropped after the lock.
        let mut driver = Some(driver);
        let stays = self.with(|place| {
            place.is_polled = false;
            let stays = !is_over && !place.hand_over;
            place.driver = driver.take_if(|_| stays);
            stays
        });
        (stays, driver.filter(|_| !is_over))
    }

    /// Hands the driver over, now or at the end of the current poll.
    pub(crate) fn hand_over(&self, number: Option<u64>) -> Option<F> {
        self.with(|place| {
            if number.is_some_and(|number| number != place.number) {
                return None;
            }
            place.hand_over = true;
            place.driver.take()
        })
    }
}
