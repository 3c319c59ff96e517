//! Runs an HTTP service with limits by network, by user and in total, on a socket and in real time.
//!
//! Quotas are per hour, so that the number of admitted requests does not depend on the speed of the program.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::routing::{get, post};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tollgate::{Keyed, Quota, RateLimiter, all};
use tollgate_tower::{ClientIp, IpNet, Policy, RateLimitHeaders, RejectionFormat, ThrottleLayer};

type Error = Box<dyn std::error::Error>;

/// The limits of the service. Clones share them.
#[derive(Clone)]
struct Limits {
    networks: Arc<Keyed<IpNet, RateLimiter>>,
    users: Arc<Keyed<u32, RateLimiter>>,
    everyone: Arc<RateLimiter>,
    failed_logins: Arc<Keyed<IpNet, RateLimiter>>,
}

impl Limits {
    fn new() -> Self {
        let hourly = |count| Quota::per_hour(count).burst(count);
        Self {
            networks: Arc::new(Keyed::rate_limiters(hourly(10))),
            users: Arc::new(Keyed::rate_limiters(hourly(6))),
            everyone: Arc::new(RateLimiter::new(hourly(30))),
            failed_logins: Arc::new(Keyed::rate_limiters(hourly(3))),
        }
    }
}

fn app(limits: Limits) -> Router {
    let peer = |about: &axum::http::Extensions| {
        let ConnectInfo(peer) = about.get::<ConnectInfo<SocketAddr>>()?;
        Some(*peer)
    };
    // One proxy in front of the service adds the address of its client.
    let client = ClientIp::peer(peer).behind(1);

    // A request has to pass the limits of its network, of its user, for whom a report costs five, and of all.
    let requests = ThrottleLayer::by({
        let (limits, client) = (limits.clone(), client.clone());
        move |parts| {
            let network = limits.networks.clone().key_owned(client.of(parts));
            let cost = if parts.uri.path() == "/reports" { 5 } else { 1 };
            // Without a known user, only the network and the total are limits.
            let user = authenticate(parts.headers);
            let user = user.map(|user| limits.users.clone().key_owned(user).cost(cost));
            all((network, user, limits.everyone.clone()))
        }
    })
    .refusing()
    .policies([
        Policy::client("network"),
        Policy::client("user"),
        Policy::server("total"),
    ])
    .headers(RateLimitHeaders::Draft11)
    .rejection_format(RejectionFormat::ProblemJson);

    let failures = limits.failed_logins.clone();
    let failed_logins =
        ThrottleLayer::by(move |parts| failures.clone().key_owned(client.of(parts)))
            .refusing()
            .refund_if(|answer| answer.status != StatusCode::UNAUTHORIZED);

    Router::new()
        .route("/me", get(async || "you"))
        .route("/reports", get(async || "a long report"))
        .layer(requests)
        // These routes come after the layer, so they are not behind it.
        .route("/login", post(login).layer(failed_logins))
        .route("/limits", get(show))
        .with_state(limits)
}

/// Returns the user of an API key. A real service would look it up.
fn authenticate(headers: &HeaderMap) -> Option<u32> {
    let key = headers.get("x-api-key")?.to_str().ok()?;
    key.strip_prefix("secret-")?.parse().ok()
}

async fn login(headers: HeaderMap) -> StatusCode {
    match headers
        .get("x-password")
        .map(|password| password.as_bytes())
    {
        Some(b"right") => StatusCode::OK,
        _ => StatusCode::UNAUTHORIZED,
    }
}

/// Shows the remaining capacity to the operator.
async fn show(State(limits): State<Limits>) -> String {
    let everyone = limits.everyone.snapshot();
    format!(
        "{} users, {} of {} left",
        limits.users.len(),
        everyone.available,
        everyone.limit
    )
}

/// A client of the service.
struct Browser {
    client: Client<HttpConnector, Body>,
    address: SocketAddr,
}

impl Browser {
    /// Sends a user's request through the proxy, which adds the network of the client.
    async fn send(
        &self,
        method: &str,
        path: &str,
        header: (&str, &str),
        from: &str,
    ) -> Result<Response<Incoming>, Error> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header(header.0, header.1)
            .header("x-forwarded-for", format!("6.6.6.6, {from}"))
            .body(Body::empty())?;
        Ok(self.client.request(request).await?)
    }

    async fn get(&self, path: &str, user: &str, from: &str) -> Result<Response<Incoming>, Error> {
        self.send("GET", path, ("x-api-key", user), from).await
    }

    async fn login(&self, password: &str) -> Result<u16, Error> {
        let password = ("x-password", password);
        let answer = self.send("POST", "/login", password, "192.0.2.1").await?;
        Ok(answer.status().as_u16())
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = app(Limits::new()).into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async { axum::serve(listener, app).await });
    let client = Client::builder(TokioExecutor::new()).build_http();
    let browser = Browser { client, address };

    // A user may send six requests at once, and a report costs five.
    let answer = browser.get("/reports", "secret-1", "192.0.2.1").await?;
    assert_eq!(answer.status(), 200);
    let policies = r#""network";q=10;w=3600, "user";q=6;w=3600, "total";q=30;w=3600"#;
    assert_eq!(answer.headers()["ratelimit-policy"], policies);
    let left = answer.headers()["ratelimit"].to_str()?;
    assert!(
        left.starts_with(r#""network";r=9;t="#) && left.contains(r#""user";r=1;t="#),
        "{left}"
    );

    // The response tells the client which limit rejected it, and when to return.
    let refused = browser.get("/reports", "secret-1", "192.0.2.1").await?;
    assert_eq!(refused.status(), 429);
    assert_eq!(
        refused.headers()["content-type"],
        "application/problem+json"
    );
    let after: u64 = refused.headers()["retry-after"].to_str()?.parse()?;
    assert!((1801..=2400).contains(&after), "{after}");
    let problem = refused.into_body().collect().await?.to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&problem)?;
    assert_eq!(problem["violated-policies"][0], "user");

    // Other users of the same network share the rest of its limit, and another network has its whole limit.
    for number in 0..9 {
        let user = format!("secret-{}", 10 + number);
        assert_eq!(browser.get("/me", &user, "192.0.2.1").await?.status(), 200);
    }
    assert_eq!(
        browser.get("/me", "secret-2", "192.0.2.1").await?.status(),
        429
    );
    assert_eq!(
        browser.get("/me", "secret-2", "192.0.2.2").await?.status(),
        200
    );

    // All networks together exceed the capacity of the server, which is not the client's fault.
    let mut statuses = Vec::new();
    for number in 0..30 {
        let (user, from) = (
            format!("secret-{}", 100 + number),
            format!("198.51.100.{number}"),
        );
        statuses.push(browser.get("/me", &user, &from).await?.status().as_u16());
    }
    assert!(
        statuses.is_sorted() && statuses[0] == 200 && statuses[29] == 503,
        "{statuses:?}"
    );

    // Logins count only when they fail.
    let mut logins = Vec::new();
    for password in [
        "right", "right", "1234", "right", "qwert", "right", "0000", "right",
    ] {
        logins.push(browser.login(password).await?);
    }
    assert_eq!(logins, [200, 200, 401, 200, 401, 200, 401, 429]);

    let shown = browser.get("/limits", "operator", "192.0.2.9").await?;
    let shown = shown.into_body().collect().await?.to_bytes();
    println!("{}", std::str::from_utf8(&shown)?);
    Ok(())
}
