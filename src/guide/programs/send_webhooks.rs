use std::sync::Arc;
use std::time::Duration;

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tokio::task::JoinSet;
use tollgate::{Keyed, Quota, Semaphore, all};
use tollgate_reqwest::{Paused, Pauses, PausesMiddleware, origin};

/// Sends to each receiver at most 2 events at once and 10 a second, and at most 64 in total.
fn client(http: reqwest::Client) -> ClientBuilder {
    let slots = Arc::new(Keyed::semaphores(2).max_keys(100_000));
    let rates = Arc::new(Keyed::rate_limiters(Quota::per_second(10)).max_keys(100_000));
    let total = Arc::new(Semaphore::new(64));
    // An event waits for at most ten minutes in all while its receiver refuses events.
    let pauses = Pauses::new().max_wait(Duration::from_secs(600)).retries(4);
    let polite = PausesMiddleware::new(pauses)
        .behind_by(move |request| {
            let receiver = origin(request.url());
            all((
                Arc::clone(&slots).key_owned(receiver.clone()),
                Arc::clone(&rates).key_owned(receiver),
                Arc::clone(&total),
            ))
        })
        // Receivers tell repeated events by their id, so all of them may be sent again.
        .retry_if(|request, _| request.headers().contains_key("webhook-id"));
    ClientBuilder::new(http).with(polite)
}

/// What to do with an event.
#[derive(Debug, PartialEq)]
enum Outcome {
    Delivered,
    /// Put it back into the queue, and send it after this time.
    Later(Duration),
    /// The receiver does not want it.
    Failed,
}

async fn deliver(client: &ClientWithMiddleware, url: &str, id: &str, event: String) -> Outcome {
    let request = client.post(url).header("webhook-id", id).body(event);
    let a_while = Duration::from_secs(60);
    match request.send().await {
        Ok(answer) if answer.status().is_success() => Outcome::Delivered,
        Ok(answer) if answer.status().is_server_error() || answer.status() == 429 => {
            Outcome::Later(a_while)
        }
        Ok(_) => Outcome::Failed,
        Err(error) => {
            let paused = Paused::in_chain(&error).and_then(Paused::remaining);
            Outcome::Later(paused.unwrap_or(a_while))
        }
    }
}

#[tokio::main]
async fn main() {
    // Make one client, and clone it: the clones share the limits.
    let client = client(reqwest::Client::new()).build();
    let mut sending = JoinSet::new();
    for number in 0..10 {
        let client = client.clone();
        sending.spawn(async move {
            let (id, event) = (format!("msg_{number}"), r#"{"type":"paid"}"#.to_owned());
            deliver(&client, "http://127.0.0.1:3000/hooks", &id, event).await
        });
    }
    while let Some(outcome) = sending.join_next().await {
        println!("{:?}", outcome.expect("it does not panic"));
    }
}
