//! Stays within the limits of a provider of language models: requests and tokens per minute, although the
//! tokens of a call are only known afterwards. The provider is simulated, and time is paused, so half an hour
//! takes no time.

#[path = "../../src/guide/programs/llm_client.rs"]
#[allow(unreachable_pub)]
mod limits;
mod provider;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate::Algorithm;

use limits::Limits;
use provider::{Counts, Provider};

const WARM_UP: Duration = Duration::from_secs(2 * 60);
const RUN: Duration = Duration::from_secs(10 * 60);

/// The client that decides when a call is sent.
#[derive(Clone)]
enum Client {
    Limits(Arc<Limits>),
    /// An ideal client that knows the state of the provider, and sends one call at a time.
    Provider(Arc<Mutex<()>>),
}

/// Makes calls one after the other.
async fn caller(client: Client, provider: Arc<Provider>) {
    loop {
        let prompt = provider.prompt();
        match &client {
            Client::Limits(limits) => {
                let call = limits.begin(prompt.at_most()).await.expect("it is open");
                let answer = provider.call(prompt).await;
                limits.end(call, answer.status(), answer.headers(), *answer.body());
            }
            Client::Provider(turn) => {
                let turn = turn.lock().await;
                provider.room(prompt).await;
                let call = provider.call(prompt);
                drop(turn);
                call.await;
            }
        }
    }
}

/// Returns the tokens that were used, and the percentage of requests that were refused.
async fn run(client: Client, provider: Provider) -> (f64, f64) {
    let provider = Arc::new(provider);
    let mut callers = JoinSet::new();
    for _ in 0..64 {
        callers.spawn(caller(client.clone(), Arc::clone(&provider)));
    }
    sleep(WARM_UP).await;
    let before = provider.totals();
    sleep(RUN).await;
    let after = provider.totals();
    let refused = after.refused - before.refused;
    let sent = after.answered - before.answered + refused;
    (after.tokens - before.tokens, 100.0 * refused / sent)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let mut passed = 0;
    let runs = [
        (Counts::Estimates, 500, 90_000),
        (Counts::Used, 500, 90_000),
        (Counts::InAnyMinute, 500, 30_000),
        (Counts::Estimates, 60, 1_000_000),
        (Counts::Used, 60, 1_000_000),
        (Counts::InAnyMinute, 60, 60_000),
        (Counts::Estimates, 5_000, 450_000),
        (Counts::Used, 5_000, 450_000),
    ];
    for (counts, requests, tokens) in runs {
        let algorithm = match counts {
            Counts::Estimates | Counts::Used => Algorithm::Gcra,
            Counts::InAnyMinute => Algorithm::SlidingLog,
        };
        let provider = || Provider::new(counts, requests, tokens);
        let (most, _) = run(Client::Provider(Arc::default()), provider()).await;
        let limits = Arc::new(Limits::new(requests, tokens, algorithm));
        let (used, refused) = run(Client::Limits(limits), provider()).await;
        let used = 100.0 * used / most;
        eprintln!(
            "{counts:?}, {requests} requests, {tokens} tokens: {used:.1} % used, {refused:.2} % refused"
        );
        passed += u32::from(used >= 95.0 && refused <= 0.5);
    }
    println!("{passed} of {} use 95 %, with 0.5 % refused", runs.len());
}
