//! The binary form of a state: a record of a fixed size.
//!
//! All numbers are little-endian. A mark and the version come first, so that another program's file, and a later
//! version's, are told apart; a checksum comes last, so that a record of which a part is missing is no other state.

use super::{LimiterState, OthersUse, Owed, PauseState, RestoreError, VERSION};
use crate::algorithm::Algorithm;
use crate::algorithm::ledger::Growth;
use crate::algorithm::sliding_window::WindowParts;
use crate::quota::Quota;
use crate::time::Tick;
use std::time::Duration;

const MARK: [u8; 4] = *b"tgls";

/// The number of bytes before the checksum.
const SUMMED: usize = LimiterState::BYTES - 8;

const PAUSED: u8 = 1;
const WITH_OTHERS: u8 = 2;
const GROWING: u8 = 4;

impl LimiterState {
    /// The size of a [record](Self::to_bytes), in bytes.
    pub const BYTES: usize = 160;

    /// Returns the state as a record of a fixed size, little-endian, with a version and a checksum. `None` for a
    /// [`SlidingLog`](Algorithm::SlidingLog), whose size grows with its count: that has the form of the feature
    /// `serde` only.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::rate::LimiterState;
    /// use tollgate::{Algorithm, Quota};
    ///
    /// let quota = Quota::per_second(10).burst(5);
    /// let mut state = LimiterState::new(Algorithm::Gcra, quota)?;
    /// state.take(quota, Duration::from_secs(1_800_000_000), 3)?;
    ///
    /// let record = state.to_bytes().expect("it is no log");
    /// assert_eq!(LimiterState::from_bytes(&record)?, state);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_bytes(&self) -> Option<[u8; Self::BYTES]> {
        let (tag, parts) = match self.algorithm {
            Algorithm::Gcra => (0, 0),
            Algorithm::TokenBucket => (1, 0),
            Algorithm::FixedWindow => (2, 0),
            Algorithm::SlidingWindow => (3, 0),
            Algorithm::SubInterval { parts } => (4, parts),
            Algorithm::SlidingLog => return None,
        };
        let owed = match &self.owed {
            Owed::Backlog {
                end,
                start,
                refunded,
            } => [*end, *start as u64, *refunded, 0],
            Owed::Window(it) => [it.start as u64, it.origin as u64, it.previous, it.count],
            Owed::Log { .. } => return None,
        };
        let pause = self.pause.unwrap_or_default();
        let others = self.others.unwrap_or_default();
        let growth = others.growth.unwrap_or_default();
        let flag = |flag, is_set| if is_set { flag } else { 0 };
        let flags = flag(PAUSED, self.pause.is_some())
            | flag(WITH_OTHERS, self.others.is_some())
            | flag(GROWING, others.growth.is_some());
        let quota = self.quota;
        let head = [tag, flags];
        let numbers = [
            u64::from(parts),
            quota.count(),
            quota.period_nanos(),
            quota.max_burst(),
            self.epoch as u64,
            self.at,
            self.generation,
            owed[0],
            owed[1],
            owed[2],
            owed[3],
            pause.until,
            pause.forced,
            others.cost,
            others.until.as_nanos(),
            growth.told,
            growth.at.as_nanos(),
            nanos(growth.passed),
        ];
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&MARK);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&head);
        for (place, number) in bytes[8..SUMMED].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(&bytes[..SUMMED]);
        bytes[SUMMED..].copy_from_slice(&sum.to_le_bytes());
        Some(bytes)
    }

    /// Reads a [record](Self::to_bytes).
    ///
    /// # Errors
    ///
    /// - [`Garbage`](RestoreError::Garbage), if it has another size, another checksum, or values that no limiter has;
    /// - [`Version`](RestoreError::Version), if it is a record of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RestoreError> {
        let record = bytes.strip_prefix(&MARK).ok_or(RestoreError::Garbage)?;
        let version = record.first_chunk().ok_or(RestoreError::Garbage)?;
        let found = u16::from_le_bytes(*version);
        if found != VERSION {
            return Err(RestoreError::Version { found });
        }
        let bytes: &[u8; Self::BYTES] = bytes.try_into().map_err(|_| RestoreError::Garbage)?;
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        if number(SUMMED) != checksum(&bytes[..SUMMED]) {
            return Err(RestoreError::Garbage);
        }
        let [tag, flags] = [bytes[6], bytes[7]];
        let numbers: [u64; 18] = std::array::from_fn(|index| number(8 + 8 * index));
        let [
            parts,
            count,
            period,
            burst,
            epoch,
            at,
            generation,
            one,
            two,
            three,
            four,
            ..,
        ] = numbers;
        let [.., until, forced, cost, known_until, told, told_at, passed] = numbers;
        let parts = u32::try_from(parts).map_err(|_| RestoreError::Garbage)?;
        let algorithm = match tag {
            0 => Algorithm::Gcra,
            1 => Algorithm::TokenBucket,
            2 => Algorithm::FixedWindow,
            3 => Algorithm::SlidingWindow,
            4 => Algorithm::SubInterval { parts },
            _ => return Err(RestoreError::Garbage),
        };
        let owed = match algorithm {
            Algorithm::SlidingWindow => Owed::Window(WindowParts {
                start: one as i64,
                origin: two as i64,
                previous: three,
                count: four,
            }),
            _ => Owed::Backlog {
                end: one,
                start: two as i64,
                refunded: three,
            },
        };
        let growth = Growth {
            told,
            at: Tick::from_nanos(told_at),
            passed: Duration::from_nanos(passed),
        };
        let others = OthersUse {
            cost,
            until: Tick::from_nanos(known_until),
            growth: (flags & GROWING != 0).then_some(growth),
        };
        let state = Self {
            algorithm,
            quota: Quota::of_parts(count, period, burst).ok_or(RestoreError::Garbage)?,
            epoch: epoch as i64,
            at,
            generation,
            owed,
            pause: (flags & PAUSED != 0).then_some(PauseState { until, forced }),
            others: (flags & WITH_OTHERS != 0).then_some(others),
        };
        state.validated()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the 64-bit FNV-1a hash.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Returns a record with the checksum of its other bytes.
#[cfg(test)]
pub(super) fn summed(mut record: [u8; LimiterState::BYTES]) -> [u8; LimiterState::BYTES] {
    let sum = checksum(&record[..SUMMED]);
    record[SUMMED..].copy_from_slice(&sum.to_le_bytes());
    record
}
