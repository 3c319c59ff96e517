//! [`App`]: the panels and their settings; its routes; and the server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response, Sse};
use axum::routing::{get, post, put};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tollgate::{Clock, RateLimiter};

use crate::http::{self, Limits};
use crate::panels::{algorithms, backend, queue, tenants};
use crate::settings::{SetError, Setting, Settings};

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// The panels, and the values that the page can change.
pub struct App {
    pub(crate) settings: Arc<Settings>,
    pub(crate) algorithms: Arc<algorithms::Panel>,
    pub(crate) queue: Arc<queue::Panel>,
    pub(crate) tenants: Arc<tenants::Panel>,
    pub(crate) backend: Arc<backend::Panel>,
    pub(crate) http: http::Limits,
    events: watch::Receiver<Arc<str>>,
}

/// The load of the panels and the events, which end when this is dropped.
pub struct Running {
    /// The running tasks.
    pub app: Arc<App>,
    tasks: JoinSet<Infallible>,
}

impl App {
    /// Starts the load of the panels and the events. The limits run on `clock`.
    pub fn start(clock: Clock) -> Running {
        let settings = Arc::new(Settings::new());
        let (sender, events) = watch::channel(Arc::from(""));
        let app = Arc::new(Self {
            algorithms: Arc::new(algorithms::Panel::new(settings.clone(), clock.clone())),
            queue: Arc::new(queue::Panel::new(settings.clone(), clock.clone())),
            tenants: Arc::new(tenants::Panel::new(settings.clone(), clock.clone())),
            backend: Arc::new(backend::Panel::new(settings.clone(), clock.clone())),
            http: Limits::new(settings.clone(), clock),
            settings,
            events,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(app.algorithms.clone().load());
        tasks.spawn(app.queue.clone().load());
        tasks.spawn(app.tenants.clone().load());
        tasks.spawn(app.backend.clone().load());
        tasks.spawn(http::publish(app.clone(), sender));
        Running { app, tasks }
    }

    /// Returns the limit of the route that all clients share, the number of admitted requests, and the
    /// time from its first decision to its last one since the last call.
    pub fn shared(&self) -> (&RateLimiter, u64, Duration) {
        let shared = &self.http.shared;
        let (decisions, span) = shared.observer();
        (shared.throttle(), decisions.admitted.total(), span.take())
    }

    /// Sets a value, and tells its panel.
    pub fn set(&self, name: &str, value: f64) -> Result<(), SetError> {
        let (setting, value) = Settings::check(name, value)?;
        if let Setting::BackendWorkers | Setting::BackendService | Setting::BackendCalls = setting {
            // From now on the user controls the sliders.
            self.backend.set_cycling(false);
        }
        self.settings.put(setting, value);
        match setting {
            Setting::AlgorithmsCalls | Setting::AlgorithmsQuota | Setting::AlgorithmsBurst => {
                self.algorithms.apply();
            }
            Setting::QueueQuota => self.queue.apply(),
            Setting::TenantsNoise | Setting::TenantsSlots => self.tenants.apply(),
            Setting::BackendWorkers | Setting::BackendService | Setting::BackendCalls => {
                self.backend.apply();
            }
            Setting::HttpQuota => self.http.apply(),
        }
        Ok(())
    }

    /// Waits for the next event, and returns its text.
    pub async fn next_event(&self) -> Arc<str> {
        let mut events = self.events.clone();
        events.mark_unchanged();
        // Without load there are no more events, and the last one stays.
        let _ = events.changed().await;
        events.borrow().clone()
    }

    /// Returns all routes. The limited ones need the address of the client.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/", get(page))
            .route("/events", get(event_stream))
            .route("/settings", get(settings))
            .route("/settings/{name}", put(set))
            .route("/queue/cancel", post(cancel))
            .route("/queue/refill", post(refill))
            .route("/backend/cycle", post(cycle))
            .route("/backend/fleet/{controller}", post(fleet))
            .with_state(Arc::clone(self))
            .merge(self.http.routes())
    }
}

async fn page() -> Response {
    let page = PAGE
        .replacen("/*page.css*/", STYLE, 1)
        .replacen("/*page.js*/", SCRIPT, 1);
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

async fn event_stream(State(app): State<Arc<App>>) -> Response {
    Sse::new(http::stream(app.events.clone())).into_response()
}

async fn settings(State(app): State<Arc<App>>) -> Response {
    let text = serde_json::to_string(&app.settings.sliders()).expect("its keys are strings");
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn set(State(app): State<Arc<App>>, Path(name): Path<String>, body: String) -> Response {
    // NaN is outside of all bounds.
    let value = body.trim().parse().unwrap_or(f64::NAN);
    match app.set(&name, value) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => problem(error),
    }
}

async fn cancel(State(app): State<Arc<App>>) -> StatusCode {
    app.queue.cancel();
    StatusCode::NO_CONTENT
}

async fn refill(State(app): State<Arc<App>>) -> StatusCode {
    app.queue.refill();
    StatusCode::NO_CONTENT
}

async fn cycle(State(app): State<Arc<App>>) -> StatusCode {
    app.backend.set_cycling(true);
    StatusCode::NO_CONTENT
}

async fn fleet(State(app): State<Arc<App>>, Path(controller): Path<backend::Fleets>) -> StatusCode {
    app.backend.restart_fleet(controller);
    StatusCode::NO_CONTENT
}

fn problem(error: SetError) -> Response {
    let status = match error {
        SetError::Unknown => StatusCode::NOT_FOUND,
        SetError::OutOfBounds { .. } => StatusCode::BAD_REQUEST,
    };
    let problem = serde_json::json!({
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "detail": error.to_string(),
    });
    let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
    (status, content_type, problem.to_string()).into_response()
}

/// The app, served on a socket.
pub struct Server {
    running: Running,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Server {
    /// Begins to serve.
    pub fn start(listener: TcpListener, running: Running) -> Self {
        let stop = CancellationToken::new();
        let service = running
            .app
            .router()
            .into_make_service_with_connect_info::<SocketAddr>();
        let stopped = stop.clone().cancelled_owned();
        let serving = tokio::spawn(async move {
            let served = axum::serve(listener, service)
                .with_graceful_shutdown(stopped)
                .await;
            served.expect("axum retries errors of the listener");
        });
        Self {
            running,
            stop,
            serving,
        }
    }

    /// Returns the app.
    pub fn app(&self) -> &Arc<App> {
        &self.running.app
    }

    /// Waits until the load of a panel or the events have ended. They end only through a panic.
    pub async fn failed(&mut self) -> JoinError {
        let ended = self.running.tasks.join_next().await;
        let Err(error) = ended.expect("nothing else takes tasks out");
        error
    }

    /// Ends the event streams and accepts no more connections, and waits for requests to end, for
    /// at most `grace`.
    pub async fn stop(mut self, grace: Duration) {
        self.stop.cancel();
        self.running.tasks.shutdown().await;
        let _ = timeout(grace, &mut self.serving).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn failed_after_a_panic_of_a_task_returns_its_message() {
        let mut running = App::start(Clock::system());
        running.tasks.spawn(async { panic!("the load is broken") });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let error = Server::start(listener, running).failed().await;
        assert!(error.to_string().contains("the load is broken"), "{error}");
    }
}
