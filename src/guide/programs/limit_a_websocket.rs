use futures::{Stream, StreamExt, pin_mut};
use tollgate::{AcquireError, Quota, RateLimiter};

/// Handles the messages of one client, each when the limit admits it. Meanwhile nothing is read, so the
/// client has to wait too.
async fn serve<M>(
    messages: impl Stream<Item = M>,
    limit: &RateLimiter,
    mut handle: impl AsyncFnMut(M),
) -> Result<(), AcquireError> {
    pin_mut!(messages);
    while let Some(message) = messages.next().await {
        limit.acquire().await?;
        handle(message).await;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AcquireError> {
    // Ten messages a second from each connection, and 20 at once after a pause.
    let limit = RateLimiter::new(Quota::per_second(10).burst(20));
    let socket = futures::stream::iter(0..100); // Stands in for the stream of a connection.
    serve(socket, &limit, async |message| println!("{message}")).await
}
