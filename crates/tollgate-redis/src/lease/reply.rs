//! What the script of leases answers.

use std::time::Duration;

use redis::Value;

use crate::error::StoreError;
use crate::script::numbers;

/// To whom a lease was granted, of those who asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    /// How long nobody new is admitted yet, since data was lost.
    pub(super) grace: Duration,
    pub(super) places: Vec<Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The fencing number of a lease, if it was granted.
    pub(super) fencing: Option<u64>,
    /// The number of a ticket, or 0.
    pub(super) ticket: u64,
}

impl Granted {
    pub(super) fn read(value: &Value, asked: usize) -> Result<Self, StoreError> {
        let numbers = numbers(value).ok_or(StoreError::Script)?;
        let [_, grace, _, places @ ..] = numbers.as_slice() else {
            return Err(StoreError::Script);
        };
        if places.len() != 2 * asked {
            return Err(StoreError::Script);
        }
        Ok(Self {
            grace: Duration::from_micros(*grace),
            places: places
                .chunks_exact(2)
                .map(|place| Place {
                    fencing: Some(place[0]).filter(|fencing| *fencing > 0),
                    ticket: place[1],
                })
                .collect(),
        })
    }
}

/// Whether a lease that was to be renewed is still held.
pub(super) fn is_held(value: &Value) -> Result<bool, StoreError> {
    match numbers(value).as_deref() {
        Some([_, verdict]) => Ok(*verdict > 0),
        _ => Err(StoreError::Script),
    }
}

/// How many are free.
pub(super) fn free(value: &Value) -> Result<u64, StoreError> {
    match numbers(value).as_deref() {
        Some([_, _, free, _, _]) => Ok(*free),
        _ => Err(StoreError::Script),
    }
}
