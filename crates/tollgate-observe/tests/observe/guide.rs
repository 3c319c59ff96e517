//! The program of the guide, on a clock that the test moves.
#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/watch_connections.rs");

use metrics::with_local_recorder;
use tollgate::Clock;

#[test]
fn page_and_suspects_show_a_permit_that_is_not_returned() {
    let recorder = PrometheusBuilder::new().build_recorder();
    with_local_recorder(&recorder, || {
        let clock = Clock::manual();
        let metrics = Metrics::new("connections").clock(&clock);
        let holders = Holders::new("connections").clock(&clock);
        let connections = Observed::new(&CONNECTIONS, (&metrics, &holders));

        let forgotten = connections.try_acquire().unwrap();
        let line = line!() - 1;
        clock.advance(Duration::from_secs(60));
        let connection = connections.try_acquire().unwrap();
        assert!(connections.try_acquire().is_err());

        let page = page(&metrics, &recorder.handle());
        assert!(page.contains("tollgate_admitted_total{limit=\"connections\"} 2\n"));
        assert!(page.contains("tollgate_in_use{limit=\"connections\"} 2\n"));
        let suspects = suspects(&holders);
        let place = format!("held for 60s: {}:{line}:", file!());
        assert_eq!(suspects.len(), 1);
        assert!(suspects[0].starts_with(&place), "{suspects:?}");
        drop((connection, forgotten));
        assert!(holders.list().is_empty());
    });
}
