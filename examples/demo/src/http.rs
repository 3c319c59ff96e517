//! The routes to send requests to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Extensions;
use axum::routing::get;
use serde::Serialize;
use tokio::time::sleep;
use tollgate::{AcquireError, Clock, Keyed, Quota, RateLimiter, Semaphore};
use tollgate_observe::{Observed, Observer, Place};
use tollgate_tower::{Answer, ClientIp, IpNet, Policy, RateLimitHeaders, ThrottleLayer};

use crate::meter::Meter;
use crate::settings::{Setting, Settings};
use crate::span::Span;

/// How long an export takes.
const EXPORT: Duration = Duration::from_secs(2);

/// The limits of the routes.
pub(crate) struct Limits {
    settings: Arc<Settings>,
    clients: Arc<Keyed<IpNet, RateLimiter>>,
    /// The limit of the route that all clients share.
    pub(crate) shared: Observed<Arc<RateLimiter>, (Arc<Decisions>, Arc<Span>)>,
    exports: Arc<Semaphore>,
}

/// Counts what a limiter decided.
pub(crate) struct Decisions {
    pub(crate) admitted: Meter,
    refused: AtomicU64,
}

impl Observer for Decisions {
    type Held = ();

    fn admitted(&self, _: Place, _: Option<Duration>) {
        self.admitted.count();
    }

    fn refused(&self, _: Place, _: &AcquireError, _: Option<Duration>) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Serialize)]
pub(crate) struct Snapshot {
    /// Per second, as the limiter reports it.
    quota: u64,
    /// The most that it admits at once.
    burst: u64,
    admitted: u64,
    refused: u64,
    per_second: usize,
}

impl Limits {
    pub(crate) fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        let clients =
            Keyed::new(RateLimiter::new(Quota::per_second(5).burst(10)).clock(clock.clone()));
        let shared = RateLimiter::new(quota(&settings)).clock(clock.clone());
        let decisions = Decisions {
            admitted: Meter::new(&clock),
            refused: AtomicU64::new(0),
        };
        let observers = (Arc::new(decisions), Arc::default());
        Self {
            settings,
            clients: Arc::new(clients),
            shared: Observed::new(Arc::new(shared), observers).clock(clock),
            exports: Arc::new(Semaphore::new(2)),
        }
    }

    /// Tells the limiter that its quota has changed.
    pub(crate) fn apply(&self) {
        self.shared.throttle().set_quota(quota(&self.settings));
    }

    /// Returns what came of the requests to the route that all clients share.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let (decisions, _) = self.shared.observer();
        let quota = self.shared.throttle().quota();
        Snapshot {
            quota: quota.count(),
            burst: quota.max_burst(),
            admitted: decisions.admitted.total(),
            refused: decisions.refused.load(Ordering::Relaxed),
            per_second: decisions.admitted.per_second(),
        }
    }

    pub(crate) fn routes(&self) -> Router {
        let clients = Arc::clone(&self.clients);
        let address = ClientIp::peer(peer);
        let by_client = ThrottleLayer::by(move |head| clients.clone().key_owned(address.of(head)))
            .refusing()
            .policies([Policy::client("client")])
            .headers(RateLimitHeaders::Draft11)
            .answer(Answer::ProblemJson);
        let shared = ThrottleLayer::new(self.shared.clone())
            .refusing()
            .policies([Policy::server("shared")])
            .headers(RateLimitHeaders::Draft11)
            .answer(Answer::ProblemJson);
        let exports = ThrottleLayer::new(Arc::clone(&self.exports))
            .refusing()
            .policies([Policy::server("exports")])
            .headers(RateLimitHeaders::Draft11)
            .answer(Answer::ProblemJson);
        Router::new()
            .route("/api/hello", get(async || "hello\n").layer(by_client))
            .route("/api/shared", get(async || "shared\n").layer(shared))
            .route("/api/exports", get(export).layer(exports))
    }
}

async fn export() -> &'static str {
    sleep(EXPORT).await;
    "exported\n"
}

fn peer(extensions: &Extensions) -> Option<SocketAddr> {
    let ConnectInfo(peer) = extensions.get::<ConnectInfo<SocketAddr>>()?;
    Some(*peer)
}

/// Returns the quota of the shared route, whose burst is what comes in a tenth of a second.
fn quota(settings: &Settings) -> Quota {
    let count = settings.get(Setting::HttpQuota);
    Quota::per_second(count).burst(count / 10)
}
