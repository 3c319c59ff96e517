//! Contains well-known clients of APIs, each with the stack that keeps the limits of its server. The tests of this
//! package use them with a server on loopback that counts and refuses.

/// A client of GitHub: octocrab takes layers of tower around a client of hyper.
pub mod github {
    use std::sync::Arc;

    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;
    use octocrab::service::middleware::base_uri::BaseUriLayer;
    use octocrab::{AuthState, OctoBody, Octocrab, OctocrabBuilder};
    use tollgate::{RateLimiter, Semaphore, all};
    use tollgate_tower::{Pauses, PausesLayer};

    /// Makes a client of the API at a URL. Later layers are further outside, and the outermost one determines
    /// the server of the requests.
    pub fn client(
        url: http::Uri,
        slots: Arc<Semaphore>,
        rate: Arc<RateLimiter>,
        pauses: Pauses,
    ) -> Octocrab {
        let http = Client::builder(TokioExecutor::new()).build_http::<OctoBody>();
        let octocrab = OctocrabBuilder::new_empty()
            .with_service(http)
            .with_layer(&PausesLayer::new(pauses).behind(all((slots, rate))))
            .with_layer(&BaseUriLayer::new(url))
            .with_auth(AuthState::None)
            .build();
        octocrab.unwrap_or_else(|never| match never {})
    }
}

/// A client of OpenAI: async-openai takes a service of tower whose requests are factories of
/// reqwest's, so that its own layer can send them again.
pub mod openai {
    use std::sync::Arc;

    use async_openai::Client;
    use async_openai::config::OpenAIConfig;
    use async_openai::error::OpenAIError;
    use async_openai::middleware::retry::OpenAIRetryLayer;
    use async_openai::middleware::{HttpRequestFactory, ReqwestService};
    use reqwest::Request;
    use reqwest_middleware::{ClientBuilder, Error};
    use tollgate::{RateLimiter, Semaphore, all};
    use tollgate_reqwest::{ApiLimits, Pauses, PausesMiddleware};
    use tollgate_tower::ThrottleLayer;
    use tower::{Layer, ServiceExt, service_fn};

    /// Makes a client of the API at a URL, with middleware of reqwest, which keeps the limits and the pauses of the
    /// server. The layer of async-openai is the outermost, so each of its attempts keeps them.
    pub fn client(
        url: &str,
        slots: Arc<Semaphore>,
        limits: ApiLimits<Request>,
        pauses: Pauses,
    ) -> Client<OpenAIConfig> {
        let polite = PausesMiddleware::new(pauses).behind(slots).limits(limits);
        let http = reqwest::Client::builder().redirect(polite.redirect_policy());
        let http = http.build().expect("TLS");
        let http = ClientBuilder::new(http).with(polite).build();
        let send = service_fn(move |factory: HttpRequestFactory| {
            let http = http.clone();
            async move {
                let sent = http.execute(factory.build().await?).await;
                sent.map_err(|error| match error {
                    Error::Reqwest(error) => OpenAIError::Reqwest(error),
                    Error::Middleware(error) => OpenAIError::Boxed(error.into()),
                })
            }
        });
        Client::with_config(config(url)).with_http_service(OpenAIRetryLayer::default().layer(send))
    }

    /// Makes a client of the API at a URL, with a layer of tower. It keeps the limits. After a refusal it waits only as
    /// long as async-openai does, with the refused request.
    pub fn throttled(
        url: &str,
        slots: Arc<Semaphore>,
        rate: Arc<RateLimiter>,
    ) -> Client<OpenAIConfig> {
        let send = ReqwestService::new(reqwest::Client::new());
        let send = ThrottleLayer::new(all((slots, rate))).errors().layer(send);
        let send = send.map_err(OpenAIError::from);
        Client::with_config(config(url)).with_http_service(OpenAIRetryLayer::default().layer(send))
    }

    fn config(url: &str) -> OpenAIConfig {
        OpenAIConfig::new().with_api_base(url).with_api_key("none")
    }
}
