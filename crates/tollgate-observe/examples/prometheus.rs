//! A service with one slot, and the page that Prometheus reads: the numbers of admitted and refused requests.
use axum::{Router, body::Body, body::to_bytes, http::Request, http::StatusCode, routing::get};
use metrics_exporter_prometheus::PrometheusBuilder;
use tollgate_observe::{Metrics, Observed};
use tower::ServiceExt;

static SLOTS: tollgate::Semaphore = tollgate::Semaphore::new(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recorder = PrometheusBuilder::new().install_recorder()?;
    let metrics = Metrics::new("work");
    let slots = Observed::new(&SLOTS, metrics.clone());
    let busy = StatusCode::SERVICE_UNAVAILABLE;
    let work = async move || slots.try_acquire().map_or(busy, |_| StatusCode::OK);
    let page = async move || (metrics.record(SLOTS.snapshot()), recorder.render()).1;
    let app = Router::new().route("/", get(work));
    let app = app.route("/metrics", get(page));
    let to = |path| Request::get(path).body(Body::empty()).expect("a path");

    assert_eq!(app.clone().oneshot(to("/")).await?.status(), 200);
    let _held = SLOTS.try_acquire()?;
    assert_eq!(app.clone().oneshot(to("/")).await?.status(), 503);
    let page = app.oneshot(to("/metrics")).await?.into_body();
    let page = String::from_utf8(to_bytes(page, 1 << 16).await?.into())?;
    assert!(page.contains(r#"admitted_total{limit="work"} 1"#));
    assert!(page.contains(r#"refused_total{limit="work",kind="no_permits"} 1"#));
    println!("{} lines", page.lines().count());
    Ok(())
}
