//! The program of the guide of `tollgate-http`: a service of actix-web behind a limit of each client.

include!("../../../crates/tollgate-http/src/guide/programs/limit_actix.rs");

use actix_web::test::{TestRequest, call_service, init_service};

/// Returns the status of a request, and its fields.
macro_rules! get {
    ($app:expr, $address:expr) => {{
        let request = TestRequest::get()
            .uri("/")
            .peer_addr(($address, 1234).into());
        let response = call_service(&$app, request.to_request()).await;
        (response.status().as_u16(), response.headers().clone())
    }};
}

#[actix_web::test]
async fn limit_rejects_a_client_that_spent_its_burst_and_tells_when_to_return() {
    let limiter = RateLimiter::new(Quota::per_second(10).burst(20));
    let limits = web::Data::new(Limits {
        clients: Keyed::new(limiter.clock(tollgate::Clock::manual())),
        ..Limits::new()
    });
    let app = App::new().app_data(limits).wrap(from_fn(limit));
    let app = init_service(app.route("/", web::get().to(page))).await;
    for left in (0..20).rev() {
        let (status, fields) = get!(app, [192, 0, 2, 1]);
        assert_eq!(status, 200);
        let fields = fields.get("ratelimit").unwrap().to_str().unwrap();
        assert!(fields.contains(&format!("r={}", left.min(10))), "{fields}");
    }
    let (status, fields) = get!(app, [192, 0, 2, 1]);
    assert_eq!(
        (status, fields.get("retry-after").unwrap().to_str().unwrap()),
        (429, "1")
    );
    assert_eq!(get!(app, [192, 0, 2, 2]).0, 200);
}
