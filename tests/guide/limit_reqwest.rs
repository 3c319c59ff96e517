#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/limit_reqwest.rs");

use std::sync::Mutex;
use std::time::Duration;

use axum::http::{Extensions, Response};
use futures::future::try_join_all;
use reqwest_middleware::{Middleware, Next, Result};
use tokio::time::{Instant, sleep};

/// In place of the network: it answers after 400 ms, the tenth request with 429 and `Retry-After: 2`.
struct Server {
    begun: Instant,
    sent: Arc<Mutex<Vec<Duration>>>,
}

#[async_trait::async_trait]
impl Middleware for Server {
    async fn handle(
        &self,
        _: reqwest::Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> Result<reqwest::Response> {
        let number = {
            let mut sent = self.sent.lock().unwrap();
            sent.push(self.begun.elapsed());
            sent.len()
        };
        sleep(Duration::from_millis(400)).await;
        let mut answer = Response::new("");
        if number == 10 {
            *answer.status_mut() = reqwest::StatusCode::TOO_MANY_REQUESTS;
            answer.headers_mut().insert("retry-after", 2.into());
        }
        Ok(answer.into())
    }
}

/// One request is sent each 20 ms, up to eight, and the ninth when the first is answered. The tenth is refused at 820 ms.
#[tokio::test(start_paused = true)]
async fn limited_client_keeps_slots_rate_and_pauses() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let server = Server {
        begun: Instant::now(),
        sent: Arc::clone(&sent),
    };
    let client = limited(reqwest::Client::new()).with(server).build();
    let answers = (0..40).map(async |_| {
        let answer = client.get("http://127.0.0.1:3000/").send().await?;
        answer.error_for_status()?.text().await?;
        Result::Ok(())
    });
    try_join_all(answers).await.unwrap();

    let sent = sent.lock().unwrap().clone();
    let millis = Duration::from_millis;
    assert_eq!(sent.len(), 41);
    let begin = [0, 20, 40, 60, 80, 100, 120, 140, 400, 420].map(millis);
    assert_eq!(sent[..10], begin);
    let in_pause = |at: &&Duration| (millis(821)..millis(2820)).contains(*at);
    assert_eq!(sent.iter().find(in_pause), None);
    // Eight hold the slots, each for 400 ms at least.
    assert!(sent.windows(9).all(|nine| nine[8] - nine[0] >= millis(400)));
}
