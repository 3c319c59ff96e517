//! The client: S3 stores of object_store behind the limits, for the embedded server or for any other.
//!
//! 1. **Every HTTP request passes the limits**, retries included: they are below the store, where it
//!    makes its requests. One goes before them, which asks another server whether it answers at all.
//! 2. **Cancelling ends waits, not requests**, and those of [`Stores::sending`] alone.
//! 3. Retries are few and short, so that a server that is gone or full is reported and not waited
//!    for.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{
    HttpClient, HttpConnector, HttpErrorKind, HttpRequest, HttpRequestBody, ReqwestConnector,
};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tollgate::all;
use tollgate_object_store::ThrottledConnector;

use crate::args::Args;
use crate::counted::{Counted, Counts};
use crate::error::Error;
use crate::rates::Limits;
use crate::server::{self, Server};

/// How long a server may take to answer its first request, which brings no bytes. Otherwise each file
/// would wait for its timeout and its retries.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// The store, as different requests see it: they differ in what they wait for, and share the limits.
#[derive(Debug)]
pub(crate) struct Stores {
    /// For uploads, under all limits, until the job is cancelled.
    pub(crate) sending: AmazonS3,
    /// To remove what cannot be completed, under the same limits, also then.
    pub(crate) finishing: AmazonS3,
    /// The same without limits, for when they let nobody in any more.
    pub(crate) unlimited: AmazonS3,
    /// To read back, which is not limited per second but for the rate that is found.
    pub(crate) reading: AmazonS3,
    /// For requests that are not those of a store, which only the slots limit.
    pub(crate) capped: HttpClient,
}

impl Stores {
    /// Clients of the embedded server.
    ///
    /// They ask once: on the loopback interface nothing gets better by asking again, and the first
    /// answer is the one that tells the cause. A server that is to refuse requests is asked again.
    ///
    /// # Errors
    ///
    /// When a client cannot be set up.
    pub(crate) fn embedded(
        server: &Server,
        args: &Args,
        limits: &Limits,
        counts: Arc<Counts>,
        token: &CancellationToken,
    ) -> Result<Stores, Error> {
        install_tls();
        let connector = Direct {
            timeout: args.timeout,
        };
        let builder = AmazonS3Builder::new()
            .with_endpoint(server.endpoint())
            .with_bucket_name(server::BUCKET)
            .with_access_key_id(server::ACCESS_KEY)
            .with_secret_access_key(server::SECRET_KEY)
            .with_client_options(ClientOptions::new().with_allow_http(true))
            .with_retry(retry(args.slow_down.map_or(0, |_| 10)));
        Stores::build(&builder, Arc::new(connector), limits, counts, token)
    }

    /// Clients of the server at `endpoint`, with the usual AWS variables.
    ///
    /// # Errors
    ///
    /// When a client cannot be set up, the server does not answer, or there are no credentials.
    pub(crate) async fn remote(
        endpoint: &str,
        bucket: &str,
        args: &Args,
        limits: &Limits,
        counts: Arc<Counts>,
        token: &CancellationToken,
    ) -> Result<Stores, Error> {
        install_tls();
        let options = ClientOptions::new()
            .with_allow_http(endpoint.starts_with("http://"))
            .with_timeout(args.timeout)
            .with_connect_timeout(Duration::from_secs(5));
        let builder = AmazonS3Builder::from_env()
            // Both, as a variable for the second would go before the argument.
            .with_endpoint(endpoint)
            .with_config(AmazonS3ConfigKey::S3Endpoint, endpoint)
            .with_bucket_name(bucket)
            .with_client_options(options.clone())
            .with_retry(retry(args.retries));
        let connector = ReqwestConnector::default();
        let client = connector.connect(&options);
        let client = client.map_err(|source| Error::Client { source })?;
        let waited = args.timeout.min(FIRST_ANSWER);
        let answers = answers(&client, endpoint, waited);
        if token.run_until_cancelled(answers).await == Some(false) {
            let endpoint = endpoint.to_owned();
            return Err(Error::Silent { endpoint, waited });
        }
        let stores = Stores::build(&builder, Arc::new(connector), limits, counts, token)?;
        // Once and first: otherwise every file would wait for them before it fails.
        let credentials = stores.sending.credentials().get_credential().await;
        match credentials {
            Ok(_) => Ok(stores),
            Err(source) => Err(Error::Credentials { source }),
        }
    }

    pub(crate) fn build(
        builder: &AmazonS3Builder,
        connector: Arc<dyn HttpConnector>,
        limits: &Limits,
        counts: Arc<Counts>,
        token: &CancellationToken,
    ) -> Result<Stores, Error> {
        let Limits {
            slots,
            requests,
            bytes,
            adaptive,
        } = limits.clone();
        let counted = Counted { connector, counts };
        let behind = |requests| {
            let throttle = all((slots.clone(), requests));
            let connector = ThrottledConnector::new(counted.clone(), throttle);
            // A rate may be one per hour.
            let connector = connector.max_wait(Duration::MAX);
            match &adaptive {
                Some(rate) => connector.adaptive(Arc::clone(rate)),
                None => connector,
            }
        };
        let finishing = behind(requests).bytes_sent(bytes);
        Ok(Stores {
            sending: client(builder, finishing.clone().cancel_on(token.clone()))?,
            finishing: client(builder, finishing)?,
            unlimited: client(builder, counted.clone())?,
            reading: client(builder, behind(None))?,
            capped: ThrottledConnector::new(counted, slots.clone())
                .connect(&ClientOptions::new())
                .map_err(|source| Error::Client { source })?,
        })
    }
}

fn client(builder: &AmazonS3Builder, connector: impl HttpConnector) -> Result<AmazonS3, Error> {
    let builder = builder.clone().with_http_connector(connector);
    builder.build().map_err(|source| Error::Client { source })
}

fn retry(max_retries: usize) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(1),
            base: 2.0,
        },
        max_retries,
        // The wait for the limits counts.
        retry_timeout: Duration::from_secs(300),
    }
}

/// Whether a server answers anything to a request without a body, be it a refusal. One that cannot
/// be reached is left to the uploads, whose failure tells why.
async fn answers(client: &HttpClient, endpoint: &str, wait: Duration) -> bool {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.method_mut() = Method::HEAD;
    // The store says what is wrong with it.
    let Ok(uri) = endpoint.parse() else {
        return true;
    };
    *request.uri_mut() = uri;
    match timeout(wait, client.execute(request)).await {
        Ok(Err(error)) => error.kind() != HttpErrorKind::Timeout,
        Ok(Ok(_)) => true,
        Err(_) => false,
    }
}

/// Chooses ring for TLS. An error means that it was chosen before.
fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Connects without the proxy that the environment may name: it could not reach this process.
#[derive(Debug)]
struct Direct {
    timeout: Duration,
}

impl HttpConnector for Direct {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(self.timeout)
            .build()
            .map_err(|source| object_store::Error::Generic {
                store: "S3",
                source: Box::new(source),
            })?;
        Ok(HttpClient::new(client))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use object_store::client::{HttpError, HttpResponse, HttpService};
    use tokio::time::Instant;

    use super::*;

    /// Answers nothing.
    #[derive(Debug)]
    struct Silent;

    #[async_trait::async_trait]
    impl HttpService for Silent {
        async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
            pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_of_a_silent_server_is_false_after_the_wait() {
        let start = Instant::now();
        let client = HttpClient::new(Silent);
        assert!(!answers(&client, "http://127.0.0.1:9", FIRST_ANSWER).await);
        assert_eq!(start.elapsed(), Duration::from_secs(10));
    }
}
