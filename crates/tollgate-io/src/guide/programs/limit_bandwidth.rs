use std::sync::Arc;

use tokio::io::AsyncWrite;
use tokio::task::JoinSet;
use tollgate::{Keyed, Quota, RateLimiter};
use tollgate_io::ThrottleIoExt;

struct Limits {
    clients: Arc<Keyed<u32, RateLimiter>>,
    total: Arc<RateLimiter>,
}

impl Limits {
    /// Limits each client to 200 kB/s, and all of them together to 500 kB/s.
    fn new() -> Self {
        let clients = Arc::new(Keyed::rate_limiters(Quota::bytes_per_second(200_000)));
        let total = Arc::new(RateLimiter::new(Quota::bytes_per_second(500_000)));
        Self { clients, total }
    }

    /// Sends a file to a client. Both limits apply, and every byte is charged to both.
    async fn send(
        &self,
        client: u32,
        mut file: &[u8],
        socket: impl AsyncWrite + Unpin,
    ) -> std::io::Result<u64> {
        let mut socket = socket
            .throttled(Arc::clone(&self.total))
            .throttled(Arc::clone(&self.clients).key_owned(client));
        tokio::io::copy(&mut file, &mut socket).await
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let limits = Arc::new(Limits::new());
    let mut sends = JoinSet::new();
    for client in 1..=5 {
        let limits = Arc::clone(&limits);
        // A sink stands in for the connection of a client.
        sends.spawn(async move { limits.send(client, &[7; 100_000], tokio::io::sink()).await });
    }
    while let Some(sent) = sends.join_next().await {
        println!("{} bytes", sent??);
    }
    Ok(())
}
