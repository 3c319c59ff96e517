//! Where the driver of a line is polled.
//!
//! 1. Whoever comes to an empty line polls the driver as a part of its own wait: a decision for one
//!    alone is a call, and no task.
//! 2. As soon as somebody else comes, or the one leaves, the driver is handed over to a task: nobody
//!    ever waits for somebody else to be polled.
//! 3. It is in one place: taken out to be polled, and then put back, handed over, or over.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll};

use crate::sync::Mutex;

pub(crate) struct Seat<F>(Mutex<Place<F>>);

struct Place<F> {
    /// Of the driver that is here, or was.
    number: u64,
    driver: Driver<F>,
}

enum Driver<F> {
    None,
    Here(F),
    Polled { hand_over: bool },
}

/// The driver that is to become a task.
pub(crate) type HandedOver<F> = Option<F>;

impl<F: Future<Output = ()> + Unpin> Seat<F> {
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

    /// Puts it here, and says by which number it is polled; or hands it over, if the one before is
    /// being polled to its end.
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

    /// Polls it, if it is here. Says whether it is still here.
    pub(crate) fn poll(&self, number: u64, context: &mut Context<'_>) -> (bool, HandedOver<F>) {
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

    /// Hands it over, now or as soon as it was polled.
    pub(crate) fn hand_over(&self, number: Option<u64>) -> HandedOver<F> {
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
