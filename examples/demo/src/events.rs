//! The events that the page shows, ten per second.
//!
//! There is one snapshot for all readers. A reader that is slower than the events misses some; none
//! are kept for it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};

use crate::app::App;
use crate::http;
use crate::panels::{algorithms, backend, queue, tenants};

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

/// Returns the text of the event of now.
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

/// Publishes an event each 100 ms, until it is dropped, which ends the streams of all readers.
///
/// Events come halfway between tenths of a second since the start. At first, a limiter that admits ten a second
/// charges at those tenths, so the next event counts a charge whose task resumes somewhat late.
pub(crate) async fn publish(app: Arc<App>, events: watch::Sender<Arc<str>>) -> Infallible {
    let start = Instant::now();
    let mut ticker = interval_at(start + TICK / 2, TICK);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticker.tick().await;
        events.send_replace(event(&app, start));
    }
}

/// Returns the events for a reader, from the last one on.
pub(crate) fn stream(
    events: watch::Receiver<Arc<str>>,
) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    let event = |text: Arc<str>| Ok(sse::Event::default().data(&*text));
    // Before the first event there is an empty text.
    WatchStream::new(events)
        .filter(|text| !text.is_empty())
        .map(event)
}
