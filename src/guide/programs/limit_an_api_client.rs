use std::error::Error;
use std::time::Duration;

use tollgate::{Quota, RateLimiter, Semaphore, all};

/// The server may ask for any pause. A longer one is for its operators.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

struct Limits {
    slots: Semaphore,
    rate: RateLimiter,
}

impl Limits {
    /// Calls `send` within the limits, and again after a pause. The error of `send` is that pause: the
    /// `Retry-After` of a response with the status 429.
    async fn call<T>(
        &self,
        send: impl AsyncFn() -> Result<T, Duration>,
    ) -> Result<T, Box<dyn Error>> {
        for _ in 0..3 {
            let limits = all((&self.slots, &self.rate));
            let permits = limits.acquire().timeout(Duration::from_secs(30)).await?;
            let retry_after = match send().await {
                Ok(answer) => return Ok(answer),
                Err(retry_after) => retry_after,
            };
            // No task is admitted until then, not even the next one that gets the slot.
            self.rate.pause_for(retry_after.min(LONGEST_PAUSE));
            drop(permits); // Not held while this call waits again.
            if retry_after > LONGEST_PAUSE {
                return Err(format!("the server asks for a pause of {retry_after:?}").into());
            }
        }
        Err("three requests were answered with 429".into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Four calls at once. Five of them start immediately, then one each 100 ms.
    let (slots, rate) = (
        Semaphore::new(4),
        RateLimiter::new(Quota::per_second(10).burst(5)),
    );
    let limits = Limits { slots, rate };
    let send = async || Ok("pong"); // Stands in for an HTTP request.
    futures::future::try_join_all((0..20).map(|_| limits.call(send))).await?;
    Ok(())
}
