//! The meaning of HTTP for limits, without a framework: for servers, the address of a client and what a response tells
//! the client about its limits; for clients, what a response asks for. It has the types of the crate [http] only.
//!
//! | task | item |
//! |---|---|
//! | identify the client of a request, behind proxies or not | [`ClientIp`] |
//! | tell clients their limits, and reject a request | [`Rejections`], [`RateLimitHeaders`], [`Policy`] |
//! | convert an error to a status and a `Retry-After` | [`status`], [`retry_after`] |
//! | read the limits that a server reports | [`server_limits`] |
//! | read whether a request was refused, and for how long | [`ResponseClass`], [`asked_wait`] |
//! | report a response to an adaptive limit | [`feedback`] |
//! | keep the limits of an API as its server counts them | [`ApiLimits`] |
//! | keep the pauses that servers ask for, and repeat what they refused | [`Pauses`], with [`UriOrigin`] |
//!
//! The crates [`tollgate-tower`] and [`tollgate-reqwest`] do all of this in layers and middleware. Use this crate with
//! another framework or client, or for a parser alone.
//!
//! [`tollgate-tower`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/
//! [`tollgate-reqwest`]: https://docs.rs/tollgate-reqwest/latest/tollgate_reqwest/
//!
//! # Examples
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use tollgate_http::server_limits::{ServerLimits, Unit};
//!
//! let response = http::Response::builder()
//!     .header("x-ratelimit-limit", "60")
//!     .header("x-ratelimit-remaining", "59")
//!     .header("x-ratelimit-reset", "30")
//!     .body(())?;
//!
//! let limits = ServerLimits::of(response.headers(), SystemTime::now());
//! let requests = limits.tightest(Unit::Requests).ok_or("no limit of requests")?;
//! assert_eq!((requests.limit, requests.remaining), (Some(60), 59));
//! assert_eq!(requests.reset_after, Some(Duration::from_secs(30)));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// Tests the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod answer;
mod api_limits;
mod client_ip;
mod fields;
pub mod guide;
mod pauses;
mod rejection;
mod rejections;
mod request_parts;
mod right_split;
pub mod server_limits;
mod uri_origin;
mod work;

#[doc(no_inline)]
pub use ipnet::IpNet;

pub use self::answer::{asked_wait, feedback, feedback_of_head};
pub use self::api_limits::{ApiCall, ApiCharges, ApiLimit, ApiLimits, Charged, Usage};
pub use self::client_ip::{ClientIp, ClientIpHeader};
pub use self::fields::{Policy, RateLimitHeaders};
pub use self::pauses::{
    Call, NextStep, Paused, PausedBy, Pauses, PausesSnapshot, ResponseClass, WhenFull,
};
pub use self::rejection::{RejectionFormat, retry_after, status};
pub use self::rejections::Rejections;
pub use self::request_parts::RequestParts;
pub use self::uri_origin::UriOrigin;
