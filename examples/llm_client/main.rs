//! Keeps the limits of a provider of language models: requests and tokens a minute, where the tokens of a
//! call are known afterwards. The provider is simulated, and time is paused, so half an hour takes no time.

#[path = "../../src/guide/programs/llm_client.rs"]
mod limits;
mod provider;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate::Algorithm;

use limits::Limits;
use provider::{Counts, Provider};

const WARM_UP: Duration = Duration::from_secs(2 * 60);
const RUN: Duration = Duration::from_secs(20 * 60);

/// Calls one after the other.
async fn caller(limits: Arc<Limits>, provider: Arc<Provider>) {
    loop {
        let prompt = provider.prompt();
        let call = limits.begin(prompt.at_most()).await.expect("it is open");
        let answer = provider.call(prompt).await;
        limits.end(call, answer.status(), answer.headers(), *answer.body());
    }
}

/// Returns which part of the provider's tokens was used, and which part of the requests was refused, in
/// percent.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn run(counts: Counts, requests: u64, tokens: u64) -> (f64, f64) {
    let algorithm = match counts {
        Counts::Estimates | Counts::Used => Algorithm::Gcra,
        Counts::InAnyMinute => Algorithm::SlidingLog,
    };
    let limits = Arc::new(Limits::new(requests, tokens, algorithm));
    let provider = Arc::new(Provider::new(counts, requests, tokens));
    for _ in 0..64 {
        tokio::spawn(caller(Arc::clone(&limits), Arc::clone(&provider)));
    }
    sleep(WARM_UP).await;
    let (before, start) = (provider.totals(), Instant::now());
    sleep(RUN).await;
    let (after, minutes) = (provider.totals(), start.elapsed().as_secs_f64() / 60.0);
    let part = |of: f64, whole: f64| 100.0 * of / whole;
    let sent = after.answered + after.refused - before.answered - before.refused;
    let by_tokens = part(after.tokens - before.tokens, tokens as f64 * minutes);
    let by_requests = part(after.answered - before.answered, requests as f64 * minutes);
    (
        by_tokens.max(by_requests),
        part(after.refused - before.refused, sent),
    )
}

fn main() {
    let mut passed = 0;
    let runs = [
        (Counts::Estimates, 500, 90_000),
        (Counts::Used, 500, 90_000),
        (Counts::InAnyMinute, 500, 30_000),
        (Counts::Estimates, 60, 1_000_000),
        (Counts::Used, 60, 1_000_000),
        (Counts::InAnyMinute, 30, 40_000),
        (Counts::Estimates, 5_000, 450_000),
        (Counts::Used, 5_000, 450_000),
    ];
    for (counts, requests, tokens) in runs {
        let (used, refused) = run(counts, requests, tokens);
        eprintln!(
            "{counts:?}, {requests} requests, {tokens} tokens: {used:.1} % used, {refused:.2} % refused"
        );
        passed += u32::from(used >= 95.0 && refused <= 0.5);
    }
    println!("{passed} of {} use 95 %, with 0.5 % refused", runs.len());
}
