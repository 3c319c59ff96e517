//! Programs that send requests: clients, crawlers, workers and uploads.

use super::Busy;

mod crawl_politely {
    include!("../../src/guide/programs/crawl_politely.rs");

    use super::Busy;
    use std::cell::RefCell;
    use std::collections::HashMap;

    use futures::future::try_join_all;
    use tokio::time::{Instant, sleep};

    /// Each visit takes 300 ms.
    #[tokio::test(start_paused = true)]
    async fn polite_visits_of_a_host_begin_two_seconds_after_the_end_of_another() {
        let (limits, begun) = (Limits::new(), Instant::now());
        let begins = RefCell::new(HashMap::<_, Vec<_>>::new());
        let visits = (0..30).map(async |page| {
            let url = Url::parse(&format!("http://host-{}/{page}", page % 3)).unwrap();
            let visit = async {
                let host = url.authority().to_owned();
                let at = begun.elapsed();
                begins.borrow_mut().entry(host).or_default().push(at);
                sleep(Duration::from_millis(300)).await;
            };
            limits.polite(&url, visit).await
        });
        try_join_all(visits).await.unwrap();
        let times: Vec<_> = (0..10)
            .map(|visit| Duration::from_millis(visit * 2300))
            .collect();
        let begins = begins.into_inner();
        assert_eq!(begins.len(), 3);
        assert!(begins.values().all(|begins| *begins == times), "{begins:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn polite_visits_of_many_hosts_are_64_at_once() {
        let (limits, begun) = (Limits::new(), Instant::now());
        let busy = Busy::default();
        let visits = (0..640).map(async |host| {
            let url = Url::parse(&format!("http://host-{host}/")).unwrap();
            let visit = async { busy.during(sleep(Duration::from_millis(300))).await };
            limits.polite(&url, visit).await
        });
        try_join_all(visits).await.unwrap();
        assert_eq!(busy.most(), 64);
        // The two-second pause of a host takes no slot of the total.
        assert_eq!(begun.elapsed(), Duration::from_millis(10 * 300));
    }
}

mod limit_a_bot {
    include!("../../src/guide/programs/limit_a_bot.rs");

    use std::cell::{Cell, RefCell};
    use std::collections::HashMap;

    use futures::future::try_join_all;
    use tokio::time::Instant;

    const SECOND: Duration = Duration::from_secs(1);

    /// The chat 1 is paused for 5 s by its third message. The total spaces two messages by a thirtieth of a second.
    #[tokio::test(start_paused = true)]
    async fn send_of_a_chat_that_is_refused_pauses_that_chat_alone() {
        let (limits, begun) = (Limits::new(), Instant::now());
        let sent = RefCell::new(HashMap::<i64, Vec<Duration>>::new());
        let messages = (0..100).map(|message| {
            let (limits, sent) = (&limits, &sent);
            let chat = i64::from(message % 5);
            limits.send(chat, async move || {
                let mut sent = sent.borrow_mut();
                let times = sent.entry(chat).or_default();
                times.push(begun.elapsed());
                if (chat, times.len()) == (1, 3) {
                    return Err(5 * SECOND);
                }
                Ok(())
            })
        });
        try_join_all(messages).await.unwrap();
        let sent = sent.into_inner();
        for (chat, times) in &sent {
            assert_eq!(times.len(), if *chat == 1 { 21 } else { 20 });
            let gaps: Vec<_> = times.windows(2).map(|it| it[1] - it[0]).collect();
            let is_near = |gap: Duration, wanted: Duration| gap.abs_diff(wanted) < SECOND / 5;
            for (message, gap) in gaps.into_iter().enumerate() {
                let is_paused = (*chat, message) == (1, 2);
                let wanted = if is_paused { 5 * SECOND } else { SECOND };
                assert!(!is_paused || gap >= wanted, "{gap:?}");
                assert!(is_near(gap, wanted), "{chat} {message}: {gap:?}");
            }
        }
    }

    /// 300 messages to other chats take ten seconds of the total. The chat 1 has ten more behind them.
    #[tokio::test(start_paused = true)]
    async fn send_while_the_total_is_full_keeps_the_messages_of_a_chat_apart() {
        let (limits, begun) = (Limits::new(), Instant::now());
        let sent = RefCell::new(Vec::new());
        let messages = (0..310).map(|message| {
            let chat = if message < 300 { 1000 + message } else { 1 };
            let (limits, sent) = (&limits, &sent);
            limits.send(chat, async move || {
                if chat == 1 {
                    sent.borrow_mut().push(begun.elapsed());
                }
                Ok(())
            })
        });
        try_join_all(messages).await.unwrap();
        let sent = sent.into_inner();
        assert_eq!(sent.len(), 10);
        assert!(sent[0] >= 9 * SECOND, "{:?}", sent[0]);
        let three = sent.windows(3).map(|it| it[2] - it[0]);
        assert!(three.into_iter().all(|it| it >= SECOND), "{sent:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn send_that_is_refused_three_times_fails() {
        let (limits, sent) = (Limits::new(), Cell::new(0));
        let send = async || {
            sent.set(sent.get() + 1);
            Err::<(), _>(SECOND)
        };
        let text = limits.send(1, send).await.unwrap_err().to_string();
        assert_eq!(
            (text.as_str(), sent.get()),
            ("three requests were answered with 429", 3)
        );
    }
}

mod limit_an_api_client {
    include!("../../src/guide/programs/limit_an_api_client.rs");

    use super::Busy;
    use std::cell::Cell;

    use futures::future::{join_all, try_join_all};
    use tokio::time::Instant;

    fn limits() -> Limits {
        Limits {
            slots: Semaphore::new(4),
            rate: RateLimiter::new(Quota::per_second(10).burst(5)),
        }
    }

    /// The eighth is sent after 300 ms, and again two seconds later; then come twelve more.
    #[tokio::test(start_paused = true)]
    async fn call_that_is_refused_pauses_all_calls_and_is_sent_again() {
        let (limits, sent, begun) = (limits(), Cell::new(0), Instant::now());
        let send = async || {
            sent.set(sent.get() + 1);
            match sent.get() {
                8 => Err(Duration::from_secs(2)),
                _ => Ok(()),
            }
        };
        let answers = (0..20).map(|_| limits.call(send));
        try_join_all(answers).await.unwrap();
        assert_eq!(
            begun.elapsed(),
            Duration::from_millis(300 + 2000 + 12 * 100)
        );
        assert_eq!(sent.get(), 21);
    }

    #[tokio::test(start_paused = true)]
    async fn call_with_a_pause_that_is_too_long_fails_and_pauses_the_others_for_less() {
        let (limits, begun) = (limits(), Instant::now());
        let refused = limits.call(async || Err::<(), _>(Duration::from_secs(3600)));
        let text = refused.await.unwrap_err().to_string();
        assert_eq!(text, "the server asks for a pause of 3600s");
        limits.call(async || Ok(())).await.unwrap();
        assert_eq!(begun.elapsed(), LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn call_that_is_refused_three_times_fails() {
        let limits = limits();
        let refused = limits.call(async || Err::<(), _>(Duration::from_secs(1)));
        let text = refused.await.unwrap_err().to_string();
        assert_eq!(text, "three requests were answered with 429");
    }

    #[tokio::test(start_paused = true)]
    async fn call_beyond_the_slots_waits_for_an_answer() {
        let (limits, busy) = (limits(), Busy::default());
        let send = async || {
            busy.during(tokio::time::sleep(Duration::from_secs(1)))
                .await;
            Ok(())
        };
        join_all((0..20).map(|_| limits.call(send))).await;
        assert_eq!(busy.most(), 4);
    }
}

mod limit_reqwest {
    include!("../../src/guide/programs/limit_reqwest.rs");

    use std::sync::Mutex;
    use std::time::Duration;

    use axum::http::{Extensions, Response};
    use futures::future::try_join_all;
    use reqwest_middleware::{Middleware, Next, Result};
    use tokio::time::{Instant, sleep};

    /// Stands in for the network: it answers after 400 ms, and the tenth request with 429 and
    /// `Retry-After: 2`.
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

    /// One request is sent every 20 ms, up to eight, and the ninth after the first answer. The
    /// tenth is refused at 820 ms.
    #[tokio::test(start_paused = true)]
    async fn limited_client_keeps_slots_rate_and_pauses() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let server = Server {
            begun: Instant::now(),
            sent: Arc::clone(&sent),
        };
        let client = limited().unwrap().with(server).build();
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
}

mod limit_kafka {
    include!("../../src/guide/programs/limit_kafka.rs");

    use super::Busy;
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    async fn most_at_once(work: Duration) -> (u64, Duration) {
        let (slots, rate) = (Semaphore::new(16), RateLimiter::new(Quota::per_second(100)));
        let (busy, begun) = (Busy::default(), Instant::now());
        let handle = async |_| busy.during(sleep(work)).await;
        let records = futures::stream::iter(0..320);
        consume(records, (&slots, &rate), handle).await.unwrap();
        (busy.most(), begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn consume_of_short_work_keeps_the_rate() {
        let (most, elapsed) = most_at_once(Duration::from_millis(15)).await;
        assert_eq!((most, elapsed), (2, Duration::from_millis(319 * 10 + 15)));
    }

    /// The rate spaces the 16 of each second, so the last begins 150 ms after the first.
    #[tokio::test(start_paused = true)]
    async fn consume_of_long_work_keeps_the_slots() {
        let (most, elapsed) = most_at_once(Duration::from_secs(1)).await;
        assert_eq!(
            (most, elapsed),
            (16, Duration::from_millis(20 * 1000 + 15 * 10))
        );
    }
}

mod limit_memory {
    include!("../../src/guide/programs/limit_memory.rs");

    #[tokio::test]
    async fn convert_returns_what_is_not_needed_and_never_holds_more_than_the_budget() {
        let memory = Arc::new(Semaphore::new(256 * MEGABYTE as usize));
        let files = [10, 200, 90, 1000].map(|size| File {
            estimate: size * MEGABYTE,
            actual: size * MEGABYTE / 2,
        });
        let convert = files.iter().map(|file| convert(file, Arc::clone(&memory)));
        let held = try_join_all(convert).await.unwrap();
        assert_eq!(held, [5, 100, 45, 256].map(|size| size * MEGABYTE));
        assert_eq!(memory.available_permits() as u64, 256 * MEGABYTE);
    }
}

mod limit_batches {
    include!("../../src/guide/programs/limit_batches.rs");

    use tokio::sync::mpsc;
    use tokio::time::{Instant, sleep};

    /// Records come every `pause`, whether anybody takes them or not. Returns when each batch was sent, and its
    /// records.
    async fn sent(records: u32, pause: Duration) -> Vec<(Duration, Vec<u32>)> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for record in 0..records {
                sender.send(record).unwrap();
                sleep(pause).await;
            }
        });
        let rate = RateLimiter::new(Quota::per_second(5));
        let (begun, mut batches) = (Instant::now(), Vec::new());
        let receive = futures::stream::poll_fn(|context| receiver.poll_recv(context));
        let send = |batch| {
            batches.push((begun.elapsed(), batch));
            std::future::ready(())
        };
        send_in_batches(receive, &rate, send).await.unwrap();
        batches
    }

    #[tokio::test(start_paused = true)]
    async fn send_in_batches_of_many_records_keeps_both_limits_and_the_order() {
        let batches = sent(2000, Duration::from_millis(4)).await;
        // The first batch is what came in 100 ms; later ones are taken 100 ms before they are sent.
        for (number, (at, batch)) in (0..).zip(&batches[..40]) {
            assert_eq!(*at, Duration::from_millis(100 + 200 * number));
            assert_eq!(batch.len(), if number < 2 { 25 } else { 50 });
        }
        let records: Vec<u32> = batches.into_iter().flat_map(|(_, batch)| batch).collect();
        assert_eq!(records, (0..2000).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn send_in_batches_of_few_records_waits_for_no_more_than_the_time() {
        let batches = sent(3, Duration::from_millis(500)).await;
        let millis = batches
            .iter()
            .map(|(at, batch)| (at.as_millis(), batch.len()));
        assert_eq!(millis.collect::<Vec<_>>(), [(100, 1), (600, 1), (1100, 1)]);
    }
}

mod limit_a_websocket {
    include!("../../src/guide/programs/limit_a_websocket.rs");

    use std::time::Duration;

    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn serve_handles_a_burst_and_then_the_rate() {
        let limit = RateLimiter::new(Quota::per_second(10).burst(20));
        let (begun, mut times) = (Instant::now(), Vec::new());
        let messages = futures::stream::iter(0..100);
        let served = serve(messages, &limit, async |_| times.push(begun.elapsed()));
        served.await.unwrap();
        let due = |message: u64| Duration::from_millis(100 * message.saturating_sub(19));
        assert_eq!(times, (0..100).map(due).collect::<Vec<_>>());
    }
}

mod find_the_right_limit {
    include!("../../crates/tollgate-adaptive/src/guide/programs/find_the_right_limit.rs");

    use std::sync::Arc;

    use tollgate::Semaphore;

    /// Stands in for a database: its workers take 20 ms for a call, and other calls queue there.
    async fn database(workers: &Semaphore) -> io::Result<()> {
        let worker = workers.acquire().timeout(Duration::from_secs(1)).await;
        let _worker = worker.map_err(|error| io::Error::new(io::ErrorKind::TimedOut, error))?;
        sleep(Duration::from_millis(20)).await;
        Ok(())
    }

    /// The database loses three quarters of its workers, and the limit follows. Probes run at multiples of ten
    /// seconds, at half of the limit, so the test reads it in between.
    #[tokio::test(start_paused = true)]
    async fn limited_calls_find_and_follow_the_number_of_workers() {
        let limit = Arc::new(AdaptiveSemaphore::default());
        let workers = Arc::new(Semaphore::new(40));
        for _ in 0..200 {
            let (limit, workers) = (Arc::clone(&limit), Arc::clone(&workers));
            tokio::spawn(async move {
                loop {
                    let _ = limited(&limit, database(&workers)).await;
                }
            });
        }
        sleep(Duration::from_secs(8)).await;
        let found = limit.snapshot().permits.limit;
        assert!((40..60).contains(&found), "{found}");

        workers.set_permits(10);
        sleep(Duration::from_secs(8)).await;
        let found = limit.snapshot().permits.limit;
        assert!((10..20).contains(&found), "{found}");
    }
}

mod limit_bandwidth {
    include!("../../crates/tollgate-io/src/guide/programs/limit_bandwidth.rs");

    use std::time::Duration;

    use tokio::io::sink;
    use tokio::time::{Instant, sleep};

    const FILE: &[u8] = &[7; 100_000];

    /// 100 kB at 200 kB/s, minus the burst of 80 ms.
    #[tokio::test(start_paused = true)]
    async fn send_to_one_client_keeps_the_limit_of_the_client() {
        let (limits, begun) = (Limits::new(), Instant::now());
        assert_eq!(limits.send(0, FILE, sink()).await.unwrap(), 100_000);
        assert_eq!(begun.elapsed(), Duration::from_millis(500 - 80));
    }

    /// 500 kB at 500 kB/s, minus the burst.
    #[tokio::test(start_paused = true)]
    async fn send_to_five_clients_keeps_the_limit_of_all() {
        let (limits, begun) = (Limits::new(), Instant::now());
        let sends = (1..=5).map(|client| limits.send(client, FILE, sink()));
        futures::future::try_join_all(sends).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_millis(1000 - 80));
        // The burst has come back after another 80 ms.
        sleep(Duration::from_millis(80)).await;
        let begun = Instant::now();
        limits.send(6, FILE, sink()).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_millis(500 - 80));
    }
}

mod cap_parallel_uploads {
    include!("../../src/guide/programs/cap_parallel_uploads.rs");

    #[tokio::test(start_paused = true)]
    async fn upload_all_with_eight_slots_uploads_eight_at_once() {
        let slots = Arc::new(Semaphore::new(8));
        let files = (0..40).map(|file| PathBuf::from(file.to_string()));
        let begun = tokio::time::Instant::now();
        upload_all(files, &slots).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_millis(5 * 100));
        assert_eq!(slots.available_permits(), 8);
    }
}

mod limit_rayon {
    include!("../../src/guide/programs/limit_rayon.rs");

    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn convert_all_on_eight_threads_writes_two_at_once() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(8);
        let files: Vec<_> = (0..200)
            .map(|file| PathBuf::from(file.to_string()))
            .collect();
        let (running, most, written) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::default());
        let write = |image: &[u8]| {
            most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
            Vec::push(&mut written.lock().unwrap(), image.to_vec());
            running.fetch_sub(1, SeqCst);
        };
        let slots = Semaphore::new(2);
        let converted = pool
            .build()
            .unwrap()
            .install(|| convert_all(&files, &slots, write));
        assert_eq!(converted, Ok(()));
        assert!(most.into_inner() <= 2);
        assert_eq!(written.into_inner().unwrap().len(), 200);
        assert_eq!(slots.available_permits(), 2);
    }

    /// The page's proposal for rayon's work under a permit: rayon's threads never wait.
    #[test]
    fn spawn_with_an_owned_permit_blocks_no_thread_of_the_pool() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
        let (pool, slots) = (
            pool.build().unwrap(),
            std::sync::Arc::new(Semaphore::new(1)),
        );
        let (sender, results) = std::sync::mpsc::channel();
        for number in 0..100 {
            let permit = std::sync::Arc::clone(&slots)
                .acquire_owned()
                .wait()
                .unwrap();
            let sender = sender.clone();
            pool.spawn(move || {
                let _permit = permit;
                let (a, b) = rayon::join(|| number, || 1);
                sender.send(a + b).unwrap();
            });
        }
        drop(sender);
        assert_eq!(results.iter().sum::<u32>(), 5050);
    }
}

/// Stands in for the network.
mod network {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use axum::http::{Extensions, Response};
    use reqwest_middleware::{Middleware, Next, Result};
    use tokio::time::{Duration, Instant};

    /// Returns these answers, and 200 after them. It remembers when requests came, and what they asked for.
    #[derive(Clone)]
    pub(super) struct Server {
        begun: Instant,
        pub(super) came: Arc<Mutex<Vec<(Duration, String)>>>,
        answers: Arc<Mutex<VecDeque<Response<String>>>>,
    }

    impl Server {
        pub(super) fn new(answers: impl IntoIterator<Item = Response<String>>) -> Self {
            Self {
                begun: Instant::now(),
                came: Arc::default(),
                answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            }
        }
    }

    pub(super) fn answer(status: u16, fields: &[(&str, &str)], text: &str) -> Response<String> {
        let mut answer = Response::builder().status(status);
        for (name, value) in fields {
            answer = answer.header(*name, *value);
        }
        answer.body(text.to_owned()).unwrap()
    }

    #[async_trait::async_trait]
    impl Middleware for Server {
        async fn handle(
            &self,
            request: reqwest::Request,
            _: &mut Extensions,
            _: Next<'_>,
        ) -> Result<reqwest::Response> {
            let url = request.url().to_string();
            self.came.lock().unwrap().push((self.begun.elapsed(), url));
            let answer = self.answers.lock().unwrap().pop_front();
            Ok(answer.unwrap_or_default().into())
        }
    }
}

mod llm_client {
    include!("../../src/guide/programs/llm_client.rs");

    use super::network::{Server, answer};

    const URL: &str = "http://api.test/v1/messages";

    fn question() -> Value {
        json!({ "max_tokens": 1_000, "messages": "x".repeat(1_960) })
    }

    fn left(limits: &ApiLimits<Request>) -> Vec<u64> {
        let limiters = limits.limiters();
        limiters.map(|it| it.snapshot().available).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn ask_of_openai_charges_the_larger_of_prompt_and_max_tokens() {
        let limits = openai();
        let text = r#"{"usage": {"total_tokens": 700}}"#;
        let refusal = answer(429, &[("retry-after", "1")], "");
        let server = Server::new([refusal, answer(200, &[], text)]);
        let client = client(reqwest::Client::new(), limits.clone());
        let client = client.with(server.clone()).build();
        ask(&client, URL, &question()).await.unwrap();
        // Both were charged, and a second has passed.
        assert_eq!(server.came.lock().unwrap().len(), 2);
        assert_eq!(left(&limits)[0], 490 - 1);
        assert!((88_200 - 2_000..88_200 - 400).contains(&left(&limits)[1]));
    }

    #[tokio::test(start_paused = true)]
    async fn ask_of_anthropic_charges_input_and_output_apart() {
        let limits = anthropic();
        let text = r#"{"usage": {"input_tokens": 490, "output_tokens": 70}}"#;
        let fields = [("anthropic-ratelimit-requests-remaining", "20")];
        let server = Server::new([answer(200, &fields, text)]);
        let client = client(reqwest::Client::new(), limits.clone());
        let client = client.with(server).build();
        ask(&client, URL, &question()).await.unwrap();
        let prompt = question().to_string().len() as u64 / 4;
        assert_eq!(left(&limits), [18, 29_400 - prompt, 7_840 - 70]);
    }

    #[tokio::test(start_paused = true)]
    async fn ask_of_a_gateway_charges_what_was_used() {
        let limits = gateway();
        let text = r#"{"usage": {"total_tokens": 600}}"#;
        let server = Server::new([answer(200, &[], text), answer(500, &[], "")]);
        let client = client(reqwest::Client::new(), limits.clone());
        let client = client.with(server).build();
        ask(&client, URL, &question()).await.unwrap();
        assert_eq!(left(&limits), [980_000 - 600]);
        // What is unknown counts as estimated.
        assert!(ask(&client, URL, &question()).await.is_err());
        assert!(left(&limits)[0] < 980_000 - 1_600);
    }
}

mod send_webhooks {
    include!("../../src/guide/programs/send_webhooks.rs");

    use super::network::{Server, answer};
    use futures::future::join_all;

    fn deliver_to<'a>(
        client: &'a ClientWithMiddleware,
        url: &'a str,
    ) -> impl Future<Output = Outcome> + 'a {
        deliver(client, url, "msg_1", "paid".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn deliver_to_one_receiver_keeps_its_rate() {
        let server = Server::new([]);
        let client = client(reqwest::Client::new()).with(server.clone()).build();
        let events = (0..21).map(|_| deliver_to(&client, "http://a.test/"));
        assert!(
            join_all(events)
                .await
                .iter()
                .all(|it| *it == Outcome::Delivered)
        );
        let came = server.came.lock().unwrap();
        assert_eq!(came.last().unwrap().0, Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn deliver_to_a_receiver_that_is_down_holds_up_no_other() {
        let server = Server::new([answer(503, &[("retry-after", "60")], "")]);
        let client = client(reqwest::Client::new()).with(server.clone()).build();
        let down = (0..200).map(|_| deliver_to(&client, "http://down.test/"));
        let others = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let urls: Vec<_> = (0..64).map(|it| format!("http://{it}.test/")).collect();
            let events = urls.iter().map(|url| deliver_to(&client, url));
            join_all(events).await;
            server.came.lock().unwrap().last().unwrap().0
        };
        let (down, last) = tokio::join!(join_all(down), others);
        assert_eq!(last, Duration::from_secs(1));
        assert!(down.iter().all(|it| *it == Outcome::Delivered));
        let came = server.came.lock().unwrap();
        let early = came
            .iter()
            .filter(|(at, url)| url.starts_with("http://down") && (1..60).contains(&at.as_secs()));
        assert_eq!(early.count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn deliver_says_what_becomes_of_an_event() {
        let server = Server::new([
            answer(410, &[], ""),
            answer(500, &[], ""),
            answer(429, &[("retry-after", "3600")], ""),
        ]);
        let client = client(reqwest::Client::new()).with(server.clone()).build();
        let a_while = Outcome::Later(Duration::from_secs(60));
        assert_eq!(deliver_to(&client, "http://a.test/").await, Outcome::Failed);
        assert_eq!(deliver_to(&client, "http://a.test/").await, a_while);
        assert_eq!(deliver_to(&client, "http://a.test/").await, a_while);
        let Outcome::Later(paused) = deliver_to(&client, "http://a.test/").await else {
            panic!("it is paused");
        };
        assert!(paused > Duration::from_secs(3590));
        assert_eq!(server.came.lock().unwrap().len(), 3);
    }
}
