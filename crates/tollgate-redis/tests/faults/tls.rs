//! Tests encrypted connections, and those that cannot be established.

use tollgate_redis::{Fallback, RateLimiter, Source, Store, StoreError, Tls};

use super::help::{PATIENT, charged, ends, failure, recovers, slow};
use crate::support::server::Server;
use crate::support::tls::{Authority, Encrypted};
use crate::support::{on_server, runtime};

/// Checks that every call fails in the same way, by its deadline, so that the fallback applies.
async fn is_unavailable(store: Result<Store, StoreError>, said: &str) {
    let store = store.unwrap().deadline(PATIENT);
    let limiter = RateLimiter::new(&store, "k", slow(5));
    let refused = ends(limiter.try_acquire()).await.unwrap_err();
    assert_eq!(failure(&refused), StoreError::Unavailable, "{said}");
    let failure = store.last_failure().unwrap();
    assert!(failure.contains(said), "{failure}");
    let charge = ends(limiter.fallback(Fallback::FailOpen).acquire()).await;
    assert_eq!(charge.unwrap().source(), Source::Fallback);
}

#[test]
fn acquire_by_tls_with_the_root_succeeds() {
    let encrypted = Encrypted::start(&["--tls-auth-clients", "no"]);
    runtime().block_on(async {
        let tls = Tls::new().root(encrypted.authority.root.as_str());
        let store = Store::with_tls(&encrypted.address(), &tls).unwrap();
        let limiter = RateLimiter::new(&store.deadline(PATIENT), "k", slow(5));
        limiter.acquire_many(2).await.unwrap();
        assert_eq!(charged(&limiter).await, 2);
        // The same as on the port that is not encrypted.
        let plain = RateLimiter::new(&encrypted.server.store(), "k", slow(5));
        assert_eq!(charged(&plain).await, 2);
    });
}

#[test]
fn acquire_by_tls_with_a_client_certificate_succeeds_where_it_is_required() {
    let encrypted = Encrypted::start(&["--tls-auth-clients", "yes"]);
    runtime().block_on(async {
        let authority = &encrypted.authority;
        let root = Tls::new().root(authority.root.as_str());
        let (certificate, key) = authority.issue();
        let tls = root.clone().client(certificate, key);
        let store = Store::with_tls(&encrypted.address(), &tls).unwrap();
        let limiter = RateLimiter::new(&store.deadline(PATIENT), "k", slow(5));
        limiter.acquire().await.unwrap();

        let address = encrypted.address();
        is_unavailable(Store::with_tls(&address, &root), "").await;
        let (certificate, key) = Authority::new("another").issue();
        let strange = root.client(certificate, key);
        is_unavailable(Store::with_tls(&address, &strange), "").await;
    });
}

#[test]
fn acquire_by_tls_of_a_server_that_is_not_trusted_is_a_typed_error() {
    let encrypted = Encrypted::start(&["--tls-auth-clients", "no"]);
    runtime().block_on(async {
        let address = encrypted.address();
        let other = Tls::new().root(Authority::new("another").root);
        is_unavailable(Store::with_tls(&address, &other), "UnknownIssuer").await;
        // No web browser trusts this authority.
        is_unavailable(Store::new(&address), "UnknownIssuer").await;
        is_unavailable(Store::with_tls(&address, &Tls::new()), "UnknownIssuer").await;
    });
}

#[test]
fn acquire_by_tls_of_a_server_without_tls_is_a_typed_error() {
    on_server(async |server: &mut Server| {
        let address = server.address().replace("redis:", "rediss:");
        is_unavailable(Store::new(&address), "").await;
    });
}

#[test]
fn with_tls_of_invalid_settings_is_an_error() {
    let runtime = runtime();
    let _inside = runtime.enter();
    let (certificate, key) = Authority::new("another").issue();
    let address = "rediss://127.0.0.1/";
    for (address, tls) in [
        ("nowhere", Tls::new()),
        ("redis://127.0.0.1/", Tls::new()),
        (address, Tls::new().root("")),
        (address, Tls::new().root(key.as_str())),
        (address, Tls::new().client(certificate.as_str(), "")),
        (address, Tls::new().client("", key.as_str())),
    ] {
        let made = Store::with_tls(address, &tls);
        assert_eq!(made.unwrap_err(), StoreError::Misconfigured, "{tls:?}");
    }
    let made = Store::with_tls(address, &Tls::new().client(certificate, key));
    assert!(made.is_ok());
}

#[cfg(feature = "cluster")]
#[test]
fn acquire_in_a_cluster_by_tls_succeeds() {
    use crate::support::{ask, server::free_port, until};

    let bus = free_port().to_string();
    let encrypted = Encrypted::start(&[
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &bus,
        "--tls-cluster",
        "yes",
    ]);
    let server = &encrypted.server;
    let () = ask(server, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    runtime().block_on(async {
        let state = || ask::<String>(server, &["CLUSTER", "INFO"]);
        until(async || state().contains("cluster_state:ok")).await;
        let (certificate, key) = encrypted.authority.issue();
        let tls = Tls::new().root(encrypted.authority.root.as_str());
        let tls = tls.client(certificate, key);
        let address = encrypted.address();
        let store = Store::cluster_with_tls([address.as_str()], &tls).unwrap();
        let limiter = RateLimiter::new(&store.deadline(PATIENT), "k", slow(5));
        recovers(&limiter).await;
        limiter.acquire().await.unwrap();
        assert_eq!(charged(&limiter).await, 1);
    });
}
