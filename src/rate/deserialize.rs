//! Quotas of configuration files that fit an algorithm (feature `serde`).
//!
//! A [`Quota`] is deserialized from its [text](Quota#as-text), and [`RateLimiter::set_quota`] panics if the limiter's
//! algorithm [cannot use it](Algorithm::check). Each function here is for fields of serde, as `deserialize_with`: it reads
//! a quota and checks it, so that the error says where the quota is and why it does not fit.
//!
//! Every quota fits [`Gcra`](Algorithm::Gcra). The size of a [`Semaphore`](crate::Semaphore) is a number: a `u32` is
//! never more than [`MAX_PERMITS`](crate::Semaphore::MAX_PERMITS).
//!
//! # Examples
//!
//! ```
//! use serde::Deserialize;
//! use tollgate::{Quota, rate};
//!
//! #[derive(Deserialize)]
//! struct Limits {
//!     uploads: u32,
//!     api: Quota,
//!     #[serde(deserialize_with = "rate::deserialize::fixed_window")]
//!     mails: Quota,
//! }
//!
//! let text = r#"{ "uploads": 8, "api": "100/h burst 10", "mails": "1000/d" }"#;
//! let limits: Limits = serde_json::from_str(text)?;
//! assert_eq!((limits.uploads, limits.mails), (8, Quota::per_day(1000)));
//! assert_eq!(limits.api, Quota::per_hour(100).burst(10));
//!
//! let error = serde_json::from_str::<Limits>(&text.replace("1000/d", "1000/d burst 7"));
//! let reason = "a window or a log allows its whole count at once";
//! assert!(error.is_err_and(|error| error.to_string().starts_with(reason)));
//! # Ok::<_, serde_json::Error>(())
//! ```
//!
//! The folder `examples/operate` has a program that loads all its limits from a file, and loads them again on a signal.
//!
//! [`RateLimiter::set_quota`]: crate::RateLimiter::set_quota

use serde::de::{Deserialize, Deserializer, Error};

use crate::algorithm::Algorithm;
use crate::quota::Quota;

/// Reads a quota for a [`TokenBucket`](Algorithm::TokenBucket).
///
/// # Errors
///
/// The error of the format, or the reason why the quota [does not fit](Algorithm::check).
pub fn token_bucket<'de, D: Deserializer<'de>>(from: D) -> Result<Quota, D::Error> {
    quota_of(Algorithm::TokenBucket, from)
}

/// Reads a quota for a [`FixedWindow`](Algorithm::FixedWindow).
///
/// # Errors
///
/// See [`token_bucket`].
pub fn fixed_window<'de, D: Deserializer<'de>>(from: D) -> Result<Quota, D::Error> {
    quota_of(Algorithm::FixedWindow, from)
}

/// Reads a quota for a [`SlidingWindow`](Algorithm::SlidingWindow).
///
/// # Errors
///
/// See [`token_bucket`].
pub fn sliding_window<'de, D: Deserializer<'de>>(from: D) -> Result<Quota, D::Error> {
    quota_of(Algorithm::SlidingWindow, from)
}

/// Reads a quota for a [`SlidingLog`](Algorithm::SlidingLog).
///
/// # Errors
///
/// See [`token_bucket`].
pub fn sliding_log<'de, D: Deserializer<'de>>(from: D) -> Result<Quota, D::Error> {
    quota_of(Algorithm::SlidingLog, from)
}

fn quota_of<'de, D: Deserializer<'de>>(algorithm: Algorithm, from: D) -> Result<Quota, D::Error> {
    let quota = Quota::deserialize(from)?;
    let checked = algorithm.check(quota);
    checked.map(|()| quota).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use serde::de::value::{Error as ValueError, StrDeserializer};
    use serde::de::{Error as _, IntoDeserializer};

    use super::{Algorithm, Quota, fixed_window, sliding_log, sliding_window, token_bucket};

    type Read = fn(StrDeserializer<'static, ValueError>) -> Result<Quota, ValueError>;

    #[test]
    fn each_function_reads_what_fits_its_algorithm_and_refuses_the_rest() {
        let functions: [(Algorithm, Read); 4] = [
            (Algorithm::TokenBucket, token_bucket),
            (Algorithm::FixedWindow, fixed_window),
            (Algorithm::SlidingWindow, sliding_window),
            (Algorithm::SlidingLog, sliding_log),
        ];
        let texts = [
            "1000/d",
            "1000/d burst 1000",
            "1000/d burst 7",
            "300000000/d",
            "unlimited",
        ];
        for (algorithm, read) in functions {
            let fits = texts.map(|text| {
                let (read, quota) = (read(text.into_deserializer()), text.parse().unwrap());
                match algorithm.check(quota) {
                    Ok(()) => assert_eq!(read, Ok(quota), "{algorithm}: {text}"),
                    Err(error) => {
                        assert_eq!(read, Err(ValueError::custom(error)), "{algorithm}: {text}");
                    }
                }
                algorithm.check(quota).is_ok()
            });
            let (is_bucket, is_log) = (
                algorithm == Algorithm::TokenBucket,
                algorithm == Algorithm::SlidingLog,
            );
            assert_eq!(fits, [true, true, is_bucket, !is_log, false], "{algorithm}");
            assert!(read("1000".into_deserializer()).is_err());
        }
    }
}
