//! The client: an S3 store of object_store, for the embedded server or for any other.
//!
//! Retries are few and short, so that a server that is gone or full is reported and not waited for.

use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use crate::args::Args;
use crate::error::Error;
use crate::server::{self, Server};

/// A client of the embedded server.
///
/// It asks once: on the loopback interface nothing gets better by asking again, and the first
/// answer is the one that tells the cause. A server that is to refuse requests is asked again.
///
/// # Errors
///
/// When the client cannot be set up.
pub fn embedded(server: &Server, args: &Args) -> Result<AmazonS3, Error> {
    install_tls();
    AmazonS3Builder::new()
        .with_endpoint(server.endpoint())
        .with_bucket_name(server::BUCKET)
        .with_access_key_id(server::ACCESS_KEY)
        .with_secret_access_key(server::SECRET_KEY)
        .with_http_connector(Direct {
            timeout: args.timeout,
        })
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .with_retry(retry(args.slow_down.map_or(0, |_| 10)))
        .build()
        .map_err(|source| Error::Client { source })
}

/// A client of the server at `endpoint`, with the usual AWS variables.
///
/// # Errors
///
/// When the client cannot be set up, or there are no credentials.
pub async fn remote(endpoint: &str, bucket: &str, args: &Args) -> Result<AmazonS3, Error> {
    install_tls();
    let store = AmazonS3Builder::from_env()
        // Both, as a variable for the second would go before the argument.
        .with_endpoint(endpoint)
        .with_config(AmazonS3ConfigKey::S3Endpoint, endpoint)
        .with_bucket_name(bucket)
        .with_client_options(
            ClientOptions::new()
                .with_allow_http(endpoint.starts_with("http://"))
                .with_timeout(args.timeout)
                .with_connect_timeout(Duration::from_secs(5)),
        )
        .with_retry(retry(args.retries))
        .build()
        .map_err(|source| Error::Client { source })?;
    // Once and first: otherwise every file would wait for them in vain.
    store
        .credentials()
        .get_credential()
        .await
        .map_err(|source| Error::Credentials { source })?;
    Ok(store)
}

fn retry(max_retries: usize) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(1),
            base: 2.0,
        },
        max_retries,
        retry_timeout: Duration::from_secs(20),
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
