//! Programs that receive requests: servers, tenants, and shutdown.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use tower::ServiceExt;

/// Returns the router's response to this address.
async fn answer(app: &Router, path: &str, last_byte: u8) -> Response<Body> {
    let peer = ConnectInfo(SocketAddr::from(([192, 0, 2, last_byte], 1234)));
    let request = Request::get(path).extension(peer).body(Body::empty());
    app.clone().oneshot(request.unwrap()).await.unwrap()
}

mod cancel_and_shut_down {
    include!("../../src/guide/programs/cancel_and_shut_down.rs");

    use tokio::time::Instant;
    use tollgate::ErrorKind;

    #[tokio::test(start_paused = true)]
    async fn run_after_a_signal_drains_what_runs_and_cancels_what_waits() {
        let (slots, begun) = (Arc::new(Semaphore::new(2)), Instant::now());
        let signal = sleep(Duration::from_secs(1));
        let ends = run(Arc::clone(&slots), signal).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 2);
        let errors = ends.into_iter().filter_map(Result::err);
        let cancelled = errors.filter(|error| error.kind() == ErrorKind::Cancelled);
        assert_eq!(cancelled.count(), 8);
        let refused = slots.acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed);
    }
}

mod limit_each_address {
    include!("../../src/guide/programs/limit_each_address.rs");

    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn is_admitted_of_an_address_that_spent_its_burst_is_false() {
        let (busy, other) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        assert!((0..20).all(|_| is_admitted(busy)));
        assert!(!is_admitted(busy));
        assert!(is_admitted(other));
        tokio::time::advance(Duration::from_millis(100)).await;
        assert!(is_admitted(busy));
        assert!(!is_admitted(busy));
    }
}

mod limit_http_by_address {
    include!("../../crates/tollgate-tower/src/guide/programs/limit_each_address.rs");

    use std::time::Duration;

    use super::answer;

    #[tokio::test(start_paused = true)]
    async fn limited_router_refuses_an_address_that_spent_its_burst() {
        let app = limited(Router::new().route("/", get(async || "hello\n")));
        let status = async |last_byte| answer(&app, "/", last_byte).await.status().as_u16();
        for _ in 0..5 {
            assert_eq!(status(1).await, 200);
        }
        assert_eq!((status(1).await, status(2).await), (429, 200));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((status(1).await, status(1).await), (200, 429));
    }
}

mod limit_http_in_total {
    include!("../../crates/tollgate-tower/src/guide/programs/limit_in_total.rs");

    use super::answer;

    fn app() -> Router {
        let app = Router::new().route("/", get(async || "a page\n"));
        limited(app.route("/report", get(async || "a long report\n")))
    }

    #[tokio::test(start_paused = true)]
    async fn limited_router_tells_a_client_its_limit() {
        let app = app();
        assert_eq!(answer(&app, "/report", 1).await.status(), 200);
        let refused = answer(&app, "/report", 1).await;
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.headers()["retry-after"], "1");
        assert_eq!(
            refused.headers()["content-type"],
            "application/problem+json"
        );
        assert!(refused.headers().contains_key("ratelimit"));
        assert_eq!(answer(&app, "/", 1).await.status(), 200);
    }

    /// An unread body holds its slots.
    #[tokio::test(start_paused = true)]
    async fn limited_router_serves_four_requests_of_a_client_at_once_and_64_in_total() {
        let app = app();
        let mut bodies = Vec::new();
        for client in 1..=16 {
            for _ in 0..4 {
                bodies.push(answer(&app, "/", client).await);
            }
            if client == 1 {
                assert_eq!(answer(&app, "/", 1).await.status(), 429);
            }
        }
        assert!(bodies.iter().all(|body| body.status() == 200));
        assert_eq!(answer(&app, "/", 17).await.status(), 503);
        bodies.pop();
        assert_eq!(answer(&app, "/", 18).await.status(), 200);
    }
}

mod limit_sqlx {
    include!("../../src/guide/programs/limit_sqlx.rs");

    use std::cell::Cell;

    use tokio::time::{Instant, sleep};
    use tollgate::ErrorKind;

    fn reports(reports_in_a_minute: u64) -> Reports {
        let rate = RateLimiter::new(Quota::per_minute(reports_in_a_minute).burst(5));
        Reports {
            slots: Semaphore::new(2),
            rate,
        }
    }

    /// The pool of a database has ten connections. Reports hold two, and only while they run.
    #[tokio::test(start_paused = true)]
    async fn run_of_reports_leaves_connections_to_others() {
        let (reports, connections) = (reports(30), Semaphore::new(10));
        let (fewest, begun) = (Cell::new(10), Instant::now());
        let queries = (0..8).map(|_| {
            reports.run(async {
                let _connection = connections.acquire().await;
                fewest.set(fewest.get().min(connections.available_permits()));
                sleep(Duration::from_secs(1)).await;
            })
        });
        futures::future::try_join_all(queries).await.unwrap();
        assert_eq!(fewest.get(), 8);
        // The sixth is due after two seconds, the seventh after four, the eighth after six.
        assert_eq!(begun.elapsed(), Duration::from_secs(6 + 1));
    }

    #[tokio::test(start_paused = true)]
    async fn run_of_a_report_that_would_wait_too_long_does_not_query() {
        let reports = reports(1);
        for _ in 0..5 {
            reports.run(async {}).await.unwrap();
        }
        let refused = reports.run(async { panic!("the query runs") }).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}

mod per_tenant_limits {
    include!("../../src/guide/programs/per_tenant_limits.rs");

    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn key_of_a_tenant_that_spent_its_burst_is_refused_alone() {
        let tenants = Tenants::new();
        tenants.set_plan("acme", PAID);
        tenants.limits.key("hooli").try_acquire_many(20).unwrap();
        let refused = tenants.limits.key("hooli").try_acquire().unwrap_err();
        assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
        tenants.limits.key("acme").try_acquire_many(200).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn set_plan_of_a_tenant_in_debt_gives_the_difference_at_once_and_forgives_nothing() {
        let tenants = Tenants::new();
        tenants.limits.key("hooli").try_acquire_many(20).unwrap();
        tenants.set_plan("hooli", PAID);
        tenants.limits.key("hooli").try_acquire_many(180).unwrap();
        assert!(tenants.limits.key("hooli").try_acquire().is_err());
        tenants.set_plan("hooli", FREE);
        assert_eq!(tenants.limits.key("hooli").snapshot().available, 0);
        assert_eq!(tenants.limits.len(), 1);
    }
}

mod share_a_limit {
    include!("../../src/guide/programs/share_a_limit.rs");

    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn part_of_each_of_four_nodes_adds_up_to_the_quota() {
        let nodes = [(); 4].map(|()| part(4));
        assert_eq!(nodes[0].quota().to_string(), "50/4s burst 2");
        let mut admitted = 0;
        for _millisecond in 0..10_000 {
            for node in &nodes {
                while node.try_acquire().is_ok() {
                    admitted += 1;
                }
            }
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        // The burst, and 50 for each second, minus the four at the very end.
        assert_eq!(admitted, 8 + 500 - 4);
    }
}

mod who_goes_first {
    include!("../../src/guide/programs/who_goes_first.rs");

    use futures::future::join_all;
    use tokio::time::Instant;

    /// Two tenants send 100 requests each at once, and a person sends one a little later.
    #[tokio::test(start_paused = true)]
    async fn queue_serves_a_person_first_and_tenants_by_weight() {
        let queue = queue(Arc::new(Semaphore::new(4)));
        let begun = Instant::now();
        let timed = async |class, at| {
            sleep(Duration::from_millis(at)).await;
            request(&queue, class).await.unwrap();
            begun.elapsed().as_millis()
        };
        let (acme, hooli, person) = tokio::join!(
            join_all((0..100).map(|_| timed("acme", 0))),
            join_all((0..100).map(|_| timed("hooli", 0))),
            timed("interactive", 15),
        );
        // The person gets the first slot that comes back.
        assert_eq!(person, 30);
        // While both tenants wait, acme holds three slots and hooli one, minus the person's.
        let by_200_ms = |ends: Vec<u128>| ends.iter().filter(|&&end| end <= 200).count();
        assert_eq!((by_200_ms(acme), by_200_ms(hooli)), (60, 19));
    }
}
