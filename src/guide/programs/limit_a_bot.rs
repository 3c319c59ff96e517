use std::error::Error;
use std::time::Duration;

use tollgate::{Gate, Keyed, Quota, RateLimiter, Semaphore, all};

struct Limits {
    pauses: Keyed<i64, Gate>,
    slots: Keyed<i64, Semaphore>,
    chats: Keyed<i64, RateLimiter>,
    total: RateLimiter,
}

impl Limits {
    /// One message a second to each chat, and 30 in all.
    fn new() -> Self {
        Self {
            pauses: Keyed::gates(),
            slots: Keyed::semaphores(1),
            chats: Keyed::rate_limiters(Quota::per_second(1)),
            total: RateLimiter::new(Quota::per_second(30)),
        }
    }

    /// Sends a message within the limits, and again after a pause. The error of `send` is that pause: the
    /// `retry_after` of an answer with the status 429.
    async fn send<T>(
        &self,
        chat: i64,
        send: impl AsyncFn() -> Result<T, Duration>,
    ) -> Result<T, Box<dyn Error>> {
        let (slot, rate) = (self.slots.key(&chat), self.chats.key(&chat));
        let limits = all((slot, rate, &self.total));
        let limits = self.pauses.key(&chat).before(limits);
        for _ in 0..3 {
            let _permits = limits.acquire().await?;
            match send().await {
                Ok(answer) => return Ok(answer),
                // No message to this chat is sent until then, not even one that was charged. Other chats go on.
                Err(retry_after) => self.pauses.key(&chat).pause_for(retry_after)?,
            }
        }
        Err("three requests were answered with 429".into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limits = Limits::new();
    let send = async || Ok("sent"); // Stands in for a request to the API.
    futures::future::try_join_all((0..10).map(|chat| limits.send(chat, send))).await?;
    Ok(())
}
