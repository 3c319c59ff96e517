#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/limit_an_api_client.rs");

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
    let (limits, running, most) = (limits(), Cell::new(0), Cell::new(0));
    let send = async || {
        running.set(running.get() + 1);
        most.set(most.get().max(running.get()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.set(running.get() - 1);
        Ok(())
    };
    join_all((0..20).map(|_| limits.call(send))).await;
    assert_eq!(most.get(), 4);
}
