//! A client of GitHub: octocrab takes layers of tower around a client of hyper.

use std::sync::Arc;

use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use octocrab::service::middleware::base_uri::BaseUriLayer;
use octocrab::{AuthState, OctoBody, Octocrab, OctocrabBuilder};
use tollgate::{RateLimiter, Semaphore};
use tollgate_tower::{RetryAfterLayer, ThrottleLayer};

/// Makes a client of the API at a URL. Layers that are added later are further outside, and the outermost one says
/// which server the requests are for.
pub fn client(
    url: http::Uri,
    slots: Arc<Semaphore>,
    rate: Arc<RateLimiter>,
    retry: RetryAfterLayer<OctoBody>,
) -> Octocrab {
    let retry = retry.pausing(Arc::clone(&rate));
    let http = Client::builder(TokioExecutor::new()).build_http::<OctoBody>();
    let octocrab = OctocrabBuilder::new_empty()
        .with_service(http)
        .with_layer(&retry.innermost())
        .with_layer(&ThrottleLayer::new(rate).errors())
        .with_layer(&retry)
        .with_layer(&ThrottleLayer::new(slots).errors())
        .with_layer(&BaseUriLayer::new(url))
        .with_auth(AuthState::None)
        .build();
    octocrab.unwrap_or_else(|never| match never {})
}
