use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tollgate::Semaphore;
use tollgate_observe::{Holders, Metrics, Observed};

static CONNECTIONS: Semaphore = Semaphore::new(2);

/// Renders the page that Prometheus reads, with gauges from the snapshot.
fn page(metrics: &Metrics, recorder: &PrometheusHandle) -> String {
    metrics.record(CONNECTIONS.snapshot());
    recorder.render()
}

/// Lists, for the log, the permits that are not returned, and the line that acquired each.
fn suspects(holders: &Holders) -> Vec<String> {
    let suspects = holders.older_than(Duration::from_secs(30));
    let lines = suspects
        .iter()
        .map(|holder| format!("held for {:?}: {}", holder.held, holder.place));
    lines.collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Install the recorder first: metrics that are created before report nothing. A server also
    // calls `recorder.run_upkeep()` every few seconds.
    let recorder = PrometheusBuilder::new().install_recorder()?;
    let (metrics, holders) = (Metrics::new("connections"), Holders::new("connections"));
    let connections = Observed::new(&CONNECTIONS, (&metrics, &holders));

    // `acquire().await` is observed in the same way.
    let _connection = connections.try_acquire()?;
    println!("{}", page(&metrics, &recorder));
    for suspect in suspects(&holders) {
        println!("{suspect}");
    }
    Ok(())
}
