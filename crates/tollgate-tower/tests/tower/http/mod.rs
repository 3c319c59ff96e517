//! The layer over HTTP: a throttle by request, the fields that tell the limits, the forms of a
//! rejection, and what is given back after the answer.
//!
//! The service answers with the status that the path names, so `/401` fails a login.

mod answers;
mod by;
mod errors;
mod fields;
mod hyper;
mod policies;
mod refunds;

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use tollgate::Throttle;
use tollgate_tower::{Choose, Responses, ThrottleLayer, ThrottledBody};
use tower::{Layer, ServiceExt, service_fn};

pub(super) type Answered<T> = Response<ThrottledBody<Body, <T as Throttle>::Permit>>;

/// Answers with the status that the path is.
pub(super) async fn status(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let status = request.uri().path().trim_start_matches('/').parse();
    let mut answer = Response::new(Body::from("answered"));
    *answer.status_mut() = status.unwrap_or(StatusCode::OK);
    Ok(answer)
}

pub(super) fn request(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

/// What a service behind the layer answers to a request for the path. It is polled once.
pub(super) fn ask<T, F>(layer: &ThrottleLayer<T, F>, path: &str) -> Answered<T>
where
    T: Throttle,
    F: Choose<Request<Body>, T>,
    Responses<T>: Clone,
{
    let answer = layer.layer(service_fn(status)).oneshot(request(path));
    crate::support::Waiter::new(answer).output().unwrap()
}

/// The statuses of the answers to requests for these paths.
pub(super) fn statuses<T, F>(layer: &ThrottleLayer<T, F>, paths: &[&str]) -> Vec<u16>
where
    T: Throttle,
    F: Choose<Request<Body>, T>,
{
    let ask = |path: &&str| ask(layer, path).status().as_u16();
    paths.iter().map(ask).collect()
}

/// The field of an answer, which must be there once.
#[track_caller]
pub(super) fn field<B>(answer: &Response<B>, name: &str) -> String {
    let mut values = answer.headers().get_all(name).iter();
    let value = values.next().unwrap_or_else(|| panic!("no {name}"));
    assert!(values.next().is_none(), "{name} twice");
    value.to_str().unwrap().to_owned()
}
