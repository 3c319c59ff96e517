//! Clients that disconnect while their requests wait, over sockets: each request and each charge is
//! undone, as if the client had never been there.
//!
//! The clock stands still, so a charge that stayed would show.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tollgate::{Clock, ErrorKind, Keyed, Quota, RateLimiter, Semaphore, all};
use tollgate_tower::{ClientIp, IpNet, ThrottleLayer};

use super::peers::{Server, until};
use crate::support::{assert_at_rest, kind};

const BURST: u64 = 2;
const NETWORKS: u8 = 25;
/// Of each network. The burst lets two of them into the queue for a slot; the others wait for their rate.
const CLIENTS: usize = 10;
const WAVES: usize = 3;

fn network(index: u8) -> IpNet {
    IpAddr::from([192, 0, 2, index]).into()
}

/// Sends a request for a client of this network, and reads nothing.
fn send(server: SocketAddr, index: u8) -> TcpStream {
    let mut socket = TcpStream::connect(server).unwrap();
    let client = network(index).addr();
    let request = format!("GET / HTTP/1.1\r\nhost: test\r\nx-forwarded-for: {client}\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_disconnect_while_they_wait_leave_nothing_behind() {
    let clock = Clock::manual();
    let clients: Arc<Keyed<IpNet, RateLimiter>> = Arc::new(Keyed::new(
        RateLimiter::new(Quota::per_second(1).burst(BURST)).clock(&clock),
    ));
    let slots = Arc::new(Semaphore::new(1));
    let handled = Arc::new(AtomicUsize::new(0));
    let handler = {
        let handled = Arc::clone(&handled);
        async move || {
            handled.fetch_add(1, Ordering::SeqCst);
            "done"
        }
    };
    let layer = {
        let (clients, slots) = (Arc::clone(&clients), Arc::clone(&slots));
        let client_ip = ClientIp::peer(|_| None).behind(1);
        ThrottleLayer::by(move |head| {
            let client = Arc::clone(&clients).key_owned(client_ip.of(head));
            all((client, Arc::clone(&slots)))
        })
    };
    let server = Server::on_loopback(Router::new().route("/", get(handler)).layer(layer)).await;
    let waiting = || {
        let of_rates = (0..NETWORKS).map(|index| clients.key(&network(index)).snapshot().waiting);
        (of_rates.sum::<usize>(), slots.snapshot().waiting)
    };

    let held = slots.try_acquire().unwrap();
    for _ in 0..WAVES {
        let mut sockets = Vec::new();
        for _ in 0..CLIENTS {
            for index in 0..NETWORKS {
                sockets.push(send(server.address, index));
            }
        }
        let in_burst = BURST as usize * usize::from(NETWORKS);
        until(|| waiting() == (sockets.len() - in_burst, in_burst)).await;
        drop(sockets);
        // A request that was let out of one queue and is not in the next holds its charge.
        let at_rest = |index| {
            let snapshot = clients.key(&network(index)).snapshot();
            (snapshot.in_use, snapshot.waiting) == (0, 0)
        };
        until(|| (0..NETWORKS).all(at_rest) && slots.snapshot().waiting == 0).await;
    }
    drop(held);

    // Each network has its whole burst, and no more.
    for index in 0..NETWORKS {
        let client = network(index);
        let client = clients.key(&client);
        let snapshot = client.snapshot();
        assert_eq!((snapshot.in_use, snapshot.available), (0, BURST));
        for _ in 0..BURST {
            assert!(client.try_acquire().is_ok());
        }
        assert_eq!(kind(client.try_acquire()), ErrorKind::RateLimited);
    }
    server.stop().await;
    // Nothing is kept for them when the charges of all would be paid off, those that were undone too.
    let charges = (WAVES * CLIENTS) as u64 + BURST;
    clock.advance(Duration::from_secs(charges));
    // The server may have closed a connection and not yet dropped its request.
    until(|| {
        clients.shrink();
        clients.is_empty()
    })
    .await;
    assert_eq!(handled.load(Ordering::SeqCst), 0);
    assert_at_rest(&slots, 1);
}
