//! Limit a service of any framework, here of actix-web.
//!
//! A middleware finds the client, asks its limit, and writes the response to a rejected request. This crate does each of
//! the three without the framework: [`ClientIp`](crate::ClientIp), a key of [`Keyed`](tollgate::Keyed), and
//! [`Rejections`](crate::Rejections). The middleware converts the types.
//!
//! ```toml
//! [dependencies]
//! actix-web = "4.9"
//! http = "1"
//! tollgate = { path = "../tollgate" }
//! tollgate-http = { path = "../tollgate/crates/tollgate-http" }
//! ```
//!
//! ```text
#![doc = include_str!("guide/programs/limit_actix.rs")]
//! ```
//!
//! A package of the repository, `clients`, has the program's test.
//!
//! # Choices
//!
//! - *Frameworks with the types of `http` 1*, such as warp, salvo and poem: pass the request itself to `ClientIp::of`, and
//!   return the rejection itself. For axum, hyper and tonic there is [`tollgate-tower`].
//! - *Waiting*: `client.acquire().timeout(..).await` in place of `try_acquire`. Then reject by the error.
//! - *Requests at once*: hold the permit of a [`Semaphore`](tollgate::Semaphore) until the response has been sent, for
//!   example in the body: `response.map_body(..)` puts it into a `MessageBody` of your own.
//! - *Several limits*: enter [`all`](tollgate::all)`((slot, client))`, and call `inspect` of the composition in both
//!   places, so that the fields and the rejection are about the right one. [`policies`](crate::Rejections::policies) names
//!   them in the fields.
//!
//! # Traps
//!
//! - Without `behind(1)`, all clients of a proxy share one limit; with it and without a proxy, a client chooses its
//!   address.
//! - Create the limits once. A factory that runs in each worker makes limits for each.
//! - In the fields, `q` is the count without the burst, and `r` (the remaining part) is never more than `q`.
//!
//! [`tollgate-tower`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/
