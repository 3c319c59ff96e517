use std::net::SocketAddr;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, Error, HttpResponse, HttpServer, Responder, web};
use tollgate::throttle::Inspect;
use tollgate::{Keyed, Quota, RateLimiter};
use tollgate_http::{ClientIp, IpNet, RateLimitHeaders, Rejections};

struct Limits {
    clients: Keyed<IpNet, RateLimiter>,
    client_ip: ClientIp,
    rejections: Rejections,
}

impl Limits {
    /// Allows 10 requests a second for each client, and 20 at once.
    fn new() -> Self {
        Self {
            clients: Keyed::rate_limiters(Quota::per_second(10).burst(20)),
            // Behind a proxy: `.behind(1)`.
            client_ip: ClientIp::peer(|extensions| extensions.get::<SocketAddr>().copied()),
            rejections: Rejections::new().headers(RateLimitHeaders::Draft11),
        }
    }
}

/// Returns what tells who has sent a request, in the types of `http` 1, because actix-web has those of `http` 0.2.
fn sender(request: &ServiceRequest) -> http::Request<()> {
    let mut sender = http::Request::new(());
    for (name, value) in request.headers() {
        let name = http::HeaderName::from_bytes(name.as_ref());
        let value = http::HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            sender.headers_mut().append(name, value);
        }
    }
    if let Some(address) = request.peer_addr() {
        sender.extensions_mut().insert(address);
    }
    sender
}

/// Adds fields to a response of actix-web.
fn add(to: &mut HeaderMap, fields: &http::HeaderMap) {
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_ref());
        let value = HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            to.append(name, value);
        }
    }
}

async fn limit(
    limits: web::Data<Limits>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let client = limits.client_ip.of(&sender(&request));
    let client = limits.clients.key(&client);
    match client.try_acquire() {
        Ok(charge) => {
            let mut response = next.call(request).await?;
            let mut fields = http::HeaderMap::new();
            let rejections = &limits.rejections;
            rejections.report(&mut fields, |each| client.inspect(Some(&charge), each));
            add(response.headers_mut(), &fields);
            Ok(response.map_into_left_body())
        }
        Err(error) => {
            let rejection = limits
                .rejections
                .reject(error, |each| client.inspect(None, each));
            let status = StatusCode::from_u16(rejection.status().as_u16());
            let status = status.expect("both have the same statuses");
            let mut response = HttpResponse::build(status).body(rejection.body().clone());
            add(response.headers_mut(), rejection.headers());
            Ok(request.into_response(response).map_into_right_body())
        }
    }
}

async fn page() -> impl Responder {
    "a page"
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    // The workers share the limits.
    let limits = web::Data::new(Limits::new());
    let app = move || {
        App::new()
            .app_data(limits.clone())
            .wrap(from_fn(limit))
            .route("/", web::get().to(page))
    };
    HttpServer::new(app).bind(("127.0.0.1", 3000))?.run().await
}
