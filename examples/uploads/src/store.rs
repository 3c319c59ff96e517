//! Makes the clients: S3 stores of object_store behind the limits, for the embedded server or any other.
//!
//! 1. **Every HTTP request passes the limits**, retries included: the limits are below the store, where it
//!    makes its requests. One request precedes them: it checks whether another server answers at all.
//! 2. **Cancelling ends waits, not requests**, and only the waits of [`Stores::sending`].
//! 3. Retries are few and short, so that the program reports a server that is gone or full instead of
//!    waiting for it.

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
use tollgate::rate::{MissedTickBehavior, Oversize};
use tollgate::throttle::BoxThrottle;
use tollgate::{RateLimiter, all};
use tollgate_adaptive::AdaptiveRate;
use tollgate_object_store::ThrottledConnector;

use crate::args::Args;
use crate::error::{Error, unconnected};
use crate::gauge::{ClientCounts, Counted};
use crate::progress::LONGEST_PAUSE;
use crate::server::{self, Server};

/// The longest time that a server may take to answer the first request, which has no body. Without this
/// limit each file would wait for its timeout and its retries.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// The longest time that another server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// The clients for different kinds of requests. They differ in what they wait for, and share the limits.
#[derive(Debug)]
pub(crate) struct Stores {
    /// For uploads, under all limits, until the job is cancelled.
    pub(crate) sending: AmazonS3,
    /// For removing incomplete uploads, under the same limits, even after a cancel.
    pub(crate) finishing: AmazonS3,
    /// For removing incomplete uploads without limits, once the limits admit no requests any more.
    pub(crate) unlimited: AmazonS3,
    /// For reading back. Of the limits per second, only the adaptive rate applies.
    pub(crate) reading: AmazonS3,
    /// For requests outside a store, which only the slots limit.
    pub(crate) capped: HttpClient,
}

impl Stores {
    /// Makes clients of the embedded server.
    ///
    /// They send each request once. On the loopback interface a retry does not help, and the first answer
    /// tells the cause. If the server is set to refuse requests, the clients retry.
    ///
    /// # Errors
    ///
    /// If a client cannot be set up.
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

    /// Makes clients of the server at `endpoint`, with the usual AWS variables.
    ///
    /// # Errors
    ///
    /// If a client cannot be set up, if the server cannot be reached or does not answer, or if there
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
            // Both are set, because a variable for the second would take precedence over the argument.
            .with_endpoint(endpoint)
            .with_config(AmazonS3ConfigKey::S3Endpoint, endpoint)
            .with_bucket_name(bucket)
            .with_client_options(options.clone())
            .with_retry(retry(args.retries));
        let connector = ReqwestConnector::default();
        // Only the wait below ends this request; a timeout of its own at the same moment would interfere.
        let client = connector.connect(&options.with_timeout_disabled());
        let client = client.map_err(|source| Error::Client { source })?;
        let answers = answers(&client, endpoint, args.timeout.min(FIRST_ANSWER));
        token.run_until_cancelled(answers).await.unwrap_or(Ok(()))?;
        let stores = Stores::build(&builder, Arc::new(connector), limits, counts, token)?;
        // The credentials are loaded once and first. Otherwise every file would wait for them before it fails.
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
            // A rate may be as low as one request per hour.
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
        // This timeout includes the wait for the limits.
        retry_timeout: Duration::from_secs(300),
    }
}

/// Waits until a server answers a request without a body, even with a refusal. If no connection can be
/// made, the uploads report the cause when they fail, unless the attempt took too long.
///
/// # Errors
///
/// If no answer arrives within the time, or if no connection is made within the client's connect timeout.
async fn answers(client: &HttpClient, endpoint: &str, waited: Duration) -> Result<(), Error> {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.method_mut() = Method::HEAD;
    // The store reports the error in the URL.
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

/// Selects ring for TLS. An error means that it was already selected.
fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Connects without a proxy from the environment, because a proxy could not reach this process.
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

// The limits of the requests: their number at once, their rate, and their bytes per second.
//
// A request enters the slots first and then the rates, so a request that waits for a slot has been
// charged nothing. A request keeps its slot while it waits for the rates. So the number of slots bounds
// the requests that wait for the rates, and also the admitted requests that have not arrived yet.

/// The initial rate of an adaptive limit. It is high enough for the main job to find 200 per second
/// in time.
pub(crate) const START: f64 = 50.0;

/// The limits. `None` means no limit.
#[derive(Clone)]
pub(crate) struct Limits {
    /// Limits the number of requests at once.
    pub(crate) slots: BoxThrottle,
    /// Limits the rate of requests.
    pub(crate) requests: Option<Arc<RateLimiter>>,
    /// Limits the bytes that the requests send per second.
    pub(crate) bytes: Option<Arc<RateLimiter>>,
    /// Finds the rate that the server accepts.
    pub(crate) adaptive: Option<Arc<AdaptiveRate>>,
}

impl Limits {
    /// Makes the limits that the arguments select, next to the slots.
    pub(crate) fn new(slots: BoxThrottle, args: &Args) -> Limits {
        // The limiter does not make up for late timers, so that the server's load never exceeds the
        // quota.
        let strict = |quota| RateLimiter::new(quota).missed_tick(MissedTickBehavior::Delay);
        // A part may be larger than the burst. It is admitted when no charge is outstanding, and the
        // next one is admitted once it has been paid off.
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

    /// A client that never answers.
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
        // The system queues one connection until it is accepted, and makes no other.
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

        // The same happens when an upload is the first request.
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
