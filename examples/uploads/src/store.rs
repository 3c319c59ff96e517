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
use tollgate::adaptive::AdaptiveRate;
use tollgate::{BoxThrottle, MissedTickBehavior, Oversize, RateLimiter, all};
use tollgate_object_store::ThrottledConnector;

use crate::args::Args;
use crate::error::{Error, unconnected};
use crate::gauge::{ClientCounts, Counted};
use crate::progress::LONGEST_PAUSE;
use crate::server::{self, Server};

/// How long a server may take to answer its first request, which brings no bytes. Otherwise each file
/// would wait for its timeout and its retries.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// How long another server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

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
        counts: Arc<ClientCounts>,
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
    /// When a client cannot be set up, the server cannot be reached or does not answer, or there
    /// are no credentials.
    pub(crate) async fn remote(
        endpoint: &str,
        bucket: &str,
        args: &Args,
        limits: &Limits,
        counts: Arc<ClientCounts>,
        token: &CancellationToken,
    ) -> Result<Stores, Error> {
        install_tls();
        let options = ClientOptions::new()
            .with_allow_http(endpoint.starts_with("http://"))
            .with_timeout(args.timeout)
            .with_connect_timeout(CONNECT);
        let builder = AmazonS3Builder::from_env()
            // Both, as a variable for the second would go before the argument.
            .with_endpoint(endpoint)
            .with_config(AmazonS3ConfigKey::S3Endpoint, endpoint)
            .with_bucket_name(bucket)
            .with_client_options(options.clone())
            .with_retry(retry(args.retries));
        let connector = ReqwestConnector::default();
        // The wait ends it, and not at the same time a timeout of its own.
        let client = connector.connect(&options.with_timeout_disabled());
        let client = client.map_err(|source| Error::Client { source })?;
        let answers = answers(&client, endpoint, args.timeout.min(FIRST_ANSWER));
        token.run_until_cancelled(answers).await.unwrap_or(Ok(()))?;
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
        counts: Arc<ClientCounts>,
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

/// Waits until a server answers anything to a request without a body, be it a refusal. That no
/// connection can be made is left to the uploads, whose failure tells why, unless that took long.
///
/// # Errors
///
/// When there is no answer within the time, or no connection within that of the client.
async fn answers(client: &HttpClient, endpoint: &str, waited: Duration) -> Result<(), Error> {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.method_mut() = Method::HEAD;
    // The store says what is wrong with it.
    let Ok(uri) = endpoint.parse() else {
        return Ok(());
    };
    *request.uri_mut() = uri;
    let endpoint = endpoint.to_owned();
    match timeout(waited, client.execute(request)).await {
        Err(_) => Err(Error::Silent { endpoint, waited }),
        Ok(Err(error)) if error.kind() == HttpErrorKind::Timeout && unconnected(&error) => {
            let waited = CONNECT;
            Err(Error::Unreachable { endpoint, waited })
        }
        Ok(_) => Ok(()),
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

// The limits of the requests: how many at once, how many per second, and how many bytes.
//
// A request enters the slots first and then the rates: a request that waits for a slot has been
// charged nothing. While it waits for the rates it keeps its slot, so that at most as many wait for them
// as there are slots, and those that are late to arrive are no more than that either.

/// The rate to begin with when it is to be found: high enough for the main job to find 200 per second
/// in time.
pub(crate) const START: f64 = 50.0;

/// The limits. What is missing is not limited.
#[derive(Clone)]
pub(crate) struct Limits {
    /// How many at once.
    pub(crate) slots: BoxThrottle,
    /// How many per time.
    pub(crate) requests: Option<Arc<RateLimiter>>,
    /// How many bytes they send.
    pub(crate) bytes: Option<Arc<RateLimiter>>,
    /// How many per second the server takes, which is found out.
    pub(crate) adaptive: Option<Arc<AdaptiveRate>>,
}

impl Limits {
    /// Those that the arguments say, beside the slots.
    pub(crate) fn new(slots: BoxThrottle, args: &Args) -> Limits {
        // Nothing is made up for after a late timer, so that the server never has more to do than
        // was said.
        let strict = |quota| RateLimiter::new(quota).missed_tick(MissedTickBehavior::Delay);
        // A part may be larger than what may go at once: it goes when nothing is owed, and the
        // next one once it has been paid off.
        let bytes = |quota| strict(quota).oversize(Oversize::Overdraft);
        let bandwidth = args.bandwidth.as_ref().map(|bytes| bytes.quota());
        let adaptive = || {
            let rate = AdaptiveRate::new().initial_rate(START);
            Arc::new(rate.max_pause(LONGEST_PAUSE))
        };
        Limits {
            slots,
            requests: args.rate.map(|quota| Arc::new(strict(quota))),
            bytes: bandwidth.map(|quota| Arc::new(bytes(quota))),
            adaptive: args.adaptive.then(adaptive),
        }
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
    async fn answers_of_a_silent_server_is_an_error_after_the_wait() {
        let start = Instant::now();
        let client = HttpClient::new(Silent);
        let answers = answers(&client, "http://127.0.0.1:9", FIRST_ANSWER).await;
        let message = "the server at http://127.0.0.1:9 does not answer; given up after 10 s";
        assert_eq!(answers.unwrap_err().to_string(), message);
        assert_eq!(start.elapsed(), Duration::from_secs(10));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn answers_of_a_server_that_takes_no_connection_is_unreachable_after_5_s() {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        // The system lets one connection wait to be accepted, and makes no other.
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let _waits = tokio::net::TcpStream::connect(address).await.unwrap();
        let endpoint = format!("http://{address}");
        install_tls();
        let client = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(CONNECT);
        let client = HttpClient::new(client.build().unwrap());
        tokio::time::pause();
        let start = Instant::now();
        let error = answers(&client, &endpoint, FIRST_ANSWER).await.unwrap_err();
        assert_eq!(start.elapsed().as_secs(), 5);
        let message = format!("the server at {endpoint} cannot be reached; given up after 5 s");
        assert_eq!(error.to_string(), message);

        // The same, where an upload is the first to see it.
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = endpoint.parse().unwrap();
        let source = client.execute(request).await.unwrap_err();
        let failure = crate::error::Failure::store(
            "key",
            &object_store::Error::Generic {
                store: "S3",
                source: Box::new(source),
            },
        );
        let message = failure.message;
        assert!(
            message.starts_with("the server cannot be reached: "),
            "{message}"
        );
        assert!(!failure.reached_server);
    }
}
