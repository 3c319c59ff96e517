//! Random requests that are dropped at any time: none is sent in a pause, and at the end everything is given back.

use futures::future::join_all;
use tokio::time::timeout;

use super::*;

/// A small random generator: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A server of two hosts that refuses, fails or answers after a random time, or never.
struct Unreliable {
    pauses: Pauses,
    random: Arc<Mutex<Random>>,
    sent: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl Middleware for Unreliable {
    async fn handle(
        &self,
        request: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> Result<reqwest::Response> {
        let paused = self.pauses.check(tollgate_reqwest::origin(request.url()));
        assert_eq!(paused, Ok(()), "sent in a pause");
        self.sent.fetch_add(1, SeqCst);
        let (latency, outcome) = {
            let mut random = self.random.lock().unwrap();
            (random.below(500), random.below(16))
        };
        sleep(Duration::from_millis(latency)).await;
        let response = match outcome {
            0 => refusal(1),
            1 => refusal(3),
            2 => Response::builder().status(429).body("").unwrap(),
            3 => Response::builder().status(503).body("").unwrap(),
            4 => {
                return Err(reqwest_middleware::Error::Middleware(
                    std::fmt::Error.into(),
                ));
            }
            5 => std::future::pending().await,
            _ => Response::new("text"),
        };
        Ok(response.into())
    }
}

#[tokio::test(start_paused = true)]
async fn middleware_gives_back_what_was_not_sent() {
    for seed in 1..50 {
        let pauses = exact();
        let slots = Arc::new(Semaphore::new(4));
        let rate = limiter(Quota::per_hour(1).burst(10_000));
        let sent = Arc::new(AtomicUsize::new(0));
        let random = Arc::new(Mutex::new(Random(seed * 0x9E37_79B9)));
        let throttle = all((Arc::clone(&rate), Arc::clone(&slots)));
        let client = builder()
            .with(PausesMiddleware::new(pauses.clone()).behind(throttle))
            .with(Unreliable {
                pauses: pauses.clone(),
                random: Arc::clone(&random),
                sent: Arc::clone(&sent),
            })
            .build();
        let jobs = (0..200).map(|number| {
            let (begins, ends, holds) = {
                let mut random = random.lock().unwrap();
                (random.below(5000), random.below(4000), random.below(300))
            };
            let url = ["http://a.test/", "http://b.test/"][number % 2];
            let request = client.get(url).send();
            async move {
                sleep(Duration::from_millis(begins)).await;
                let response = timeout(Duration::from_millis(ends), request).await;
                sleep(Duration::from_millis(holds)).await;
                drop(response);
            }
        });
        join_all(jobs).await;
        let sent = sent.load(SeqCst) as u64;
        assert!(sent > 20, "{sent}");
        assert_eq!(pauses.snapshot().waiting, 0, "{seed}");
        assert_eq!(slots.available_permits(), 4, "{seed}");
        assert_eq!(rate.snapshot().available, 10_000 - sent, "{seed}");
    }
}
