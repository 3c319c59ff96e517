//! The routes to send requests to.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Extensions;
use axum::response::sse;
use axum::routing::get;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tollgate::{AcquireError, Clock, Keyed, Quota, RateLimiter, Semaphore};
use tollgate_observe::{Observed, Observer, Place};
use tollgate_tower::{ClientIp, IpNet, Policy, RateLimitHeaders, RejectionFormat, ThrottleLayer};

use crate::app::App;
use crate::http;
use crate::meter::{Meter, Span};
use crate::panels::{algorithms, backend, queue, tenants};
use crate::settings::{Setting, Settings};

/// The duration of an export.
const EXPORT: Duration = Duration::from_secs(2);

/// The limits of the routes.
pub(crate) struct Limits {
    settings: Arc<Settings>,
    clients: Arc<Keyed<IpNet, RateLimiter>>,
    /// The limit of the route that all clients share.
    pub(crate) shared: Observed<Arc<RateLimiter>, (Arc<Decisions>, Arc<Span>)>,
    exports: Arc<Semaphore>,
}

/// A counter of a limiter's decisions.
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
    /// The burst.
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

    /// Notifies the limiter of its new quota.
    pub(crate) fn apply(&self) {
        self.shared.throttle().set_quota(quota(&self.settings));
    }

    /// Returns the results of the requests to the route that all clients share.
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
        let by_client =
            ThrottleLayer::by(move |parts| clients.clone().key_owned(address.of(parts)))
                .refusing()
                .policies([Policy::client("client")])
                .headers(RateLimitHeaders::Draft11)
                .rejection_format(RejectionFormat::ProblemJson);
        let shared = ThrottleLayer::new(self.shared.clone())
            .refusing()
            .policies([Policy::server("shared")])
            .headers(RateLimitHeaders::Draft11)
            .rejection_format(RejectionFormat::ProblemJson);
        let exports = ThrottleLayer::new(Arc::clone(&self.exports))
            .refusing()
            .policies([Policy::server("exports")])
            .headers(RateLimitHeaders::Draft11)
            .rejection_format(RejectionFormat::ProblemJson);
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

/// Returns the quota of the shared route, with a burst of a tenth of a second.
fn quota(settings: &Settings) -> Quota {
    let count = settings.get(Setting::HttpQuota);
    Quota::per_second(count).burst(count / 10)
}

// The events that the page shows, ten per second.
//
// There is one snapshot for all readers. A reader that is slower than the events misses some; none
// are kept for it.

const TICK: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct Event {
    t: f64,
    settings: BTreeMap<&'static str, u64>,
    algorithms: algorithms::Snapshot,
    queue: queue::Snapshot,
    tenants: tenants::Snapshot,
    backend: backend::Snapshot,
    http: http::Snapshot,
}

/// Returns the text of the present event.
pub(crate) fn event(app: &App, start: Instant) -> Arc<str> {
    let event = Event {
        t: (start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
        settings: app.settings.values(),
        algorithms: app.algorithms.snapshot(),
        queue: app.queue.snapshot(),
        tenants: app.tenants.snapshot(),
        backend: app.backend.snapshot(),
        http: app.http.snapshot(),
    };
    let text = serde_json::to_string(&event).expect("its keys are strings and its numbers finite");
    text.into()
}

/// Publishes an event every 100 ms while there is a reader. The streams of all readers end when this future is dropped.
///
/// Events come halfway between tenths of a second since the start. At first, a limiter that admits ten a second
/// charges at those tenths, so the next event counts a charge whose task resumes somewhat late.
pub(crate) async fn publish(app: Arc<App>, events: watch::Sender<Arc<str>>) -> Infallible {
    let start = Instant::now();
    let mut ticker = interval_at(start + TICK / 2, TICK);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticker.tick().await;
        // The app keeps one receiver to clone; without a second one nobody reads.
        if events.receiver_count() > 1 {
            events.send_replace(event(&app, start));
        }
    }
}

/// Returns the events for a reader, from the next one on.
pub(crate) fn stream(
    mut events: watch::Receiver<Arc<str>>,
) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    let event = |text: Arc<str>| Ok(sse::Event::default().data(&*text));
    events.mark_unchanged();
    WatchStream::from_changes(events).map(event)
}
