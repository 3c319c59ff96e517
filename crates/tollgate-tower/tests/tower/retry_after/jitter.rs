//! Pauses are a little longer at random, and never shorter.

use super::*;

fn jittered() -> RetryAfterLayer<Body> {
    RetryAfterLayer::copying(|body: &Body| Some(body.clone())).clock(Clock::tokio())
}

/// How long a request waits that is refused for a hundred seconds.
async fn wait(layer: RetryAfterLayer<Body>) -> Duration {
    let (_, client) = setup(&layer.max_wait(100 * SECOND), [refusal("100")]);
    let (status, waited) = get(&client).await;
    assert_eq!(status, 200);
    waited
}

#[tokio::test(start_paused = true)]
async fn jitter_makes_pauses_up_to_a_tenth_longer() {
    let percents = [
        (jittered(), 10),
        (jittered().jitter_percent(50), 50),
        (exact(), 0),
    ];
    for (layer, percent) in percents {
        let mut above_the_middle = 0;
        for _ in 0..128 {
            // The timer of tokio counts in milliseconds, and rounds up.
            let most = (100 + percent) * SECOND + Duration::from_millis(1);
            let waited = wait(layer.clone().clock(Clock::tokio())).await;
            assert!((100 * SECOND..=most).contains(&waited), "{waited:?}");
            above_the_middle += u32::from(waited > (100 * SECOND + most) / 2);
        }
        // All are in one half once in 2^127 runs.
        let is_spread = (1..128).contains(&above_the_middle);
        assert_eq!(is_spread, percent > 0, "{above_the_middle} of 128");
    }
}
