//! The worlds.

use std::time::Duration;

use tollgate_http::Meaning;

use super::server::{Bucket, Field, Outage, Path, Slots, Window};
use super::world::{Log, Setup, run};

#[test]
fn print() {
    for field in [Field::No, Field::Ceil, Field::Floor] {
        for rate in [5.0, 20.0, 100.0, 400.0] {
            let log = run(
                Bucket::new(rate, rate, field, 0.1),
                Setup::closed(64, 200.0),
                1,
            );
            println!(
                "64: bucket {rate}/s burst 1s {field:?}: used {:.2} refused {:.3} returned {} local {} most {} callers {:?}..{:?}",
                log.rate(20.0, 200.0) / rate.min(640.0),
                log.refused_part(20.0, 200.0),
                log.returned,
                log.local,
                log.most_in_flight,
                log.by_caller.iter().min(),
                log.by_caller.iter().max()
            );
        }
    }
    for callers in [1, 8, 64, 1000] {
        let blip = || Outage {
            from: 10.0,
            to: 10.05,
            refusal: (429, Meaning::Refused(None)),
            after: 200,
            latency: 0.1,
        };
        let log = run(blip(), Setup::closed(callers, 60.0), 1);
        println!(
            "{callers}: blip: before {:.0} after 1s pause+2s {:.0} later {:.0}, returned {} local {}",
            log.rate(5.0, 10.0),
            log.rate(13.3, 15.0),
            log.rate(20.0, 60.0),
            log.returned,
            log.local
        );
    }
    let outage = || Outage {
        from: 10.0,
        to: 999.0,
        refusal: (503, Meaning::Refused(Some(Duration::from_secs(1)))),
        after: 200,
        latency: 0.1,
    };
    let open = Setup {
        open: 200.0,
        ..Setup::closed(0, 70.0)
    };
    let log = run(outage(), open, 1);
    println!(
        "200/s, 503 with 1 s for a minute: sent/s {}",
        Log::count(&log.sent, 11.0, 70.0) / 59.0
    );
    for latency in [0.1, 2.0] {
        let log = run(
            Slots {
                count: 10,
                busy: 0,
                latency,
            },
            Setup::closed(64, 400.0),
            1,
        );
        println!(
            "10 at once, {latency}: used {:.2} refused {:.3}",
            log.rate(20.0, 400.0) * latency / 10.0,
            log.refused_part(20.0, 400.0)
        );
    }
    let log = run(
        Window::new(500, 60.0, Field::No, 0.1),
        Setup::closed(64, 600.0),
        1,
    );
    println!(
        "window 500: used {:.2} refused {:.3} local {}",
        log.rate(0.0, 600.0) / 500.0 * 60.0,
        log.refused_part(0.0, 600.0),
        log.local
    );
    let path = |latency| Path {
        share: 0.1,
        path: Outage {
            from: 0.0,
            to: 999.0,
            refusal: (503, Meaning::RefusedAlone),
            after: 200,
            latency,
        },
        latency,
    };
    let log = run(path(0.1), Setup::closed(64, 200.0), 1);
    println!(
        "path: {:.0}/s returned {} refused {:.3}",
        log.rate(20.0, 200.0),
        log.returned,
        log.refused_part(0.0, 200.0)
    );
    let log = run(
        Bucket::new(20.0, 20.0, Field::Ceil, 0.1),
        Setup {
            slots: Some(8),
            cancelled: 0.3,
            ..Setup::closed(64, 120.0)
        },
        1,
    );
    println!(
        "slots: used {:.2} refused {:.3} callers {:?}..{:?}",
        log.rate(20.0, 120.0) / 20.0,
        log.refused_part(20.0, 120.0),
        log.by_caller.iter().min(),
        log.by_caller.iter().max()
    );
}
