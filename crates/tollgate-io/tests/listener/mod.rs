//! A listener behind a throttle: sockets of the system, and a script of connections and failures on a manual clock.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore, Throttle};
use tollgate_io::{Accept, Connection, Listener};

use crate::support::{Waiter, poll_once};

type Shared<T> = Arc<Mutex<T>>;

/// Connections and failures in an order that a test writes; then nothing comes.
#[derive(Clone, Default)]
struct Script {
    to_come: Shared<VecDeque<Result<u32, io::ErrorKind>>>,
    waker: Shared<Option<Waker>>,
    calls: Arc<AtomicUsize>,
}

impl Script {
    fn of(to_come: impl IntoIterator<Item = Result<u32, io::ErrorKind>>) -> Self {
        let script = Self::default();
        script.to_come.lock().unwrap().extend(to_come);
        script
    }

    fn add(&self, number: u32) {
        self.to_come.lock().unwrap().push_back(Ok(number));
        if let Some(waker) = self.waker.lock().unwrap().take() {
            waker.wake();
        }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Accept for Script {
    type Io = u32;
    type Addr = ();

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<(u32, ())>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.to_come.lock().unwrap().pop_front() {
            Some(Ok(number)) => Poll::Ready(Ok((number, ()))),
            Some(Err(kind)) => Poll::Ready(Err(kind.into())),
            None => {
                *self.waker.lock().unwrap() = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The number of a connection that is there.
fn number<P>(accepted: &(Connection<u32, P>, ())) -> u32 {
    *accepted.0.get_ref()
}

#[test]
fn accept_at_the_limit_leaves_connections_to_the_system() {
    let script = Script::of([Ok(1), Ok(2), Ok(3)]);
    let slots = Arc::new(Semaphore::new(2));
    let mut listener = Listener::new(script.clone(), Arc::clone(&slots));
    let first = Waiter::new(listener.accept()).granted();
    let _second = Waiter::new(listener.accept()).granted();
    let mut third = Waiter::parked(listener.accept());
    assert_eq!((script.calls(), slots.available_permits()), (2, 0));
    drop(first);
    assert_eq!(number(&third.granted()), 3);
}

#[test]
fn accept_that_is_dropped_keeps_its_place_and_its_permit() {
    let script = Script::default();
    let slots = Arc::new(Semaphore::new(1));
    let held = slots.try_acquire().unwrap();
    let mut listener = Listener::new(script.clone(), Arc::clone(&slots));
    drop(Waiter::parked(listener.accept()));
    let mut behind = Waiter::parked(slots.acquire());
    drop(held);
    // The listener was first; it has the permit, and nobody connects.
    drop(Waiter::parked(listener.accept()));
    assert!(behind.is_pending());
    script.add(7);
    let accepted = Waiter::new(listener.accept()).granted();
    assert_eq!(number(&accepted), 7);
    drop(accepted);
    drop(behind.granted());
    assert_eq!(slots.available_permits(), 1);
}

#[test]
fn drop_of_a_listener_gives_the_charge_back() {
    let clock = Clock::manual();
    let rate = Arc::new(RateLimiter::new(Quota::per_second(1)).clock(&clock));
    let mut listener = Listener::new(Script::default(), Arc::clone(&rate));
    drop(Waiter::parked(listener.accept()));
    assert_eq!(rate.snapshot().available, 0);
    drop(listener);
    assert_eq!(rate.snapshot().available, 1);
}

#[test]
fn failures_of_the_process_pause_for_longer_and_longer_and_hold_nothing() {
    let pauses = [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000];
    let clock = Clock::manual();
    let script = Script::of(pauses.map(|_| Err(io::ErrorKind::Other)));
    let slots = Arc::new(Semaphore::new(1));
    let reported = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reported);
    let mut listener = Listener::new(script.clone(), Arc::clone(&slots))
        .clock(&clock)
        .on_error(move |_| _ = count.fetch_add(1, Ordering::Relaxed));
    let mut accept = Waiter::parked(listener.accept());
    for (failures, pause) in (1..).zip(pauses) {
        clock.advance(Duration::from_millis(pause) - Duration::from_nanos(1));
        assert!(accept.is_pending());
        assert_eq!((script.calls(), slots.available_permits()), (failures, 1));
        clock.advance(Duration::from_nanos(1));
        assert!(accept.is_pending());
        assert_eq!(script.calls(), failures + 1);
    }
    assert_eq!(reported.load(Ordering::Relaxed), pauses.len());
    script.add(7);
    assert_eq!(number(&accept.granted()), 7);
}

#[test]
fn failure_of_one_connection_is_skipped_without_a_pause() {
    let aborted = io::ErrorKind::ConnectionAborted;
    let script = Script::of([Err(aborted), Err(aborted), Ok(7)]);
    let slots = Arc::new(Semaphore::new(1));
    let mut listener = Listener::new(script.clone(), slots).clock(Clock::manual());
    assert_eq!(number(&Waiter::new(listener.accept()).granted()), 7);

    script.to_come.lock().unwrap().push_back(Err(aborted));
    script.add(8);
    assert_eq!(number(&Waiter::new(listener.accept()).granted()), 8);
}

#[test]
fn pauses_after_a_connection_are_short_again() {
    let clock = Clock::manual();
    let failure = Err(io::ErrorKind::Other);
    let script = Script::of([failure, failure, Ok(1), failure, Ok(2)]);
    let slots = Arc::new(Semaphore::new(2));
    let mut listener = Listener::new(script.clone(), slots).clock(&clock);
    let mut waiting = Waiter::parked(listener.accept());
    clock.advance(Duration::from_millis(5));
    assert!(waiting.is_pending());
    clock.advance(Duration::from_millis(10));
    let first = waiting.granted();
    drop(waiting);
    let mut second = Waiter::parked(listener.accept());
    clock.advance(Duration::from_millis(5));
    assert_eq!((number(&first), number(&second.granted())), (1, 2));
}

#[test]
fn accept_or_close_pauses_and_keeps_no_permit_of_an_earlier_accept() {
    let clock = Clock::manual();
    let script = Script::default();
    let slots = Arc::new(Semaphore::new(1));
    let mut listener = Listener::new(script.clone(), Arc::clone(&slots)).clock(&clock);
    drop(Waiter::parked(listener.accept()));
    script.add(1);
    script.add(2);
    let first = Waiter::new(listener.accept_or_close()).granted();
    assert_eq!(number(&first), 1);
    // The second one is closed, and then nothing comes.
    drop(Waiter::parked(listener.accept_or_close()));
    drop(first);
    script
        .to_come
        .lock()
        .unwrap()
        .extend([Err(io::ErrorKind::Other), Ok(3)]);
    let mut third = Waiter::parked(listener.accept_or_close());
    clock.advance(Duration::from_millis(5));
    assert_eq!(number(&third.granted()), 3);
}

#[test]
fn close_of_the_throttle_ends_both_loops() {
    let slots = Arc::new(Semaphore::new(0));
    let script = Script::of([Ok(1)]);
    let mut listener = Listener::new(script, Arc::clone(&slots));
    let mut accept = Waiter::parked(listener.accept());
    slots.close();
    assert_eq!(accept.refused(), ErrorKind::Closed);
    drop(accept);
    let refused = Waiter::new(listener.accept_or_close()).refused();
    assert_eq!(refused, ErrorKind::Closed);
}

#[test]
fn close_of_the_throttle_while_nobody_connects_is_noticed_after_the_next_connection() {
    let (script, slots) = (Script::default(), Arc::new(Semaphore::new(2)));
    let mut listener = Listener::new(script.clone(), Arc::clone(&slots));
    let mut waiting = Waiter::parked(listener.accept());
    slots.close();
    assert!(waiting.is_pending());
    drop(waiting);
    script.add(1);
    drop(Waiter::new(listener.accept()).granted());
    script.add(2);
    let refused = Waiter::new(listener.accept()).refused();
    assert_eq!(refused, ErrorKind::Closed);
    drop(listener);
    assert_eq!(slots.in_use(), 0);
}

#[test]
fn connection_is_closed_before_its_permit_returns() {
    /// Notes the free permits when it is closed.
    #[derive(Debug)]
    struct Closing(Arc<Semaphore>, Shared<Option<u64>>);

    impl Drop for Closing {
        fn drop(&mut self) {
            *self.1.lock().unwrap() = Some(self.0.available_permits() as u64);
        }
    }

    struct One(Option<Closing>);

    impl Accept for One {
        type Io = Closing;
        type Addr = ();

        fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<io::Result<(Closing, ())>> {
            Poll::Ready(Ok((self.0.take().expect("asked once"), ())))
        }
    }

    let (slots, seen) = (Arc::new(Semaphore::new(1)), Shared::default());
    let one = One(Some(Closing(Arc::clone(&slots), Arc::clone(&seen))));
    let mut listener = Listener::new(one, Arc::clone(&slots));
    drop(Waiter::new(listener.accept()).granted());
    assert_eq!(
        (*seen.lock().unwrap(), slots.available_permits()),
        (Some(0), 1)
    );
}

/// Returns a listener of the system behind a semaphore of `slots` permits, and a function that connects to it.
async fn sockets(slots: usize) -> (Listener<TcpListener, Arc<Semaphore>>, std::net::SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let slots = Semaphore::new(slots);
    (Listener::new(socket, Arc::new(slots)), address)
}

#[tokio::test]
async fn sockets_of_the_system_wait_for_a_slot() {
    let (mut listener, address) = sockets(1).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    let (mut served, peer) = listener.accept().await.unwrap();
    assert_eq!(peer, first.local_addr().unwrap());
    served.write_all(b"one").await.unwrap();
    let mut text = [0; 3];
    first.read_exact(&mut text).await.unwrap();
    first.write_all(b"two").await.unwrap();
    served.read_exact(&mut text).await.unwrap();
    assert_eq!(&text, b"two");

    assert!(poll_once(&mut Box::pin(listener.accept())).is_pending());
    drop(served);
    let (_served, peer) = listener.accept().await.unwrap();
    assert_eq!(peer, second.local_addr().unwrap());
    // The first one sees the end of its connection.
    assert_eq!(first.read(&mut text).await.unwrap(), 0);
    second.write_all(b"one").await.unwrap();
}

#[tokio::test]
async fn sockets_of_the_system_are_closed_beyond_the_limit() {
    let (mut listener, address) = sockets(1).await;
    let slots = Arc::clone(listener.throttle());
    let _first = TcpStream::connect(address).await.unwrap();
    let _served = listener.accept_or_close().await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    let end = tokio::spawn(async move { second.read(&mut [0; 1]).await.map_or(0, |read| read) });
    let accept = async {
        listener.accept_or_close().await.unwrap();
    };
    tokio::select! {
        () = accept => panic!("one permit, two connections"),
        read = end => assert_eq!(read.unwrap(), 0),
    }
    assert_eq!(slots.available_permits(), 0);
}

#[tokio::test]
async fn shutdown_by_a_token_loses_no_connection() {
    let (mut listener, address) = sockets(1).await;
    let token = CancellationToken::new();
    token.cancel();
    let client = TcpStream::connect(address).await.unwrap();
    for _ in 0..10 {
        let cancelled = token.run_until_cancelled(listener.accept()).await;
        assert!(cancelled.is_none());
    }
    let (_served, peer) = listener.accept().await.unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
}

#[cfg(unix)]
#[tokio::test]
async fn unix_sockets_are_accepted_in_the_same_way() {
    let folder = std::env::temp_dir().join(format!("tollgate-io-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    let socket = tokio::net::UnixListener::bind(&path).unwrap();
    let mut listener = Listener::new(socket, Arc::new(Semaphore::new(1)));
    let mut client = tokio::net::UnixStream::connect(&path).await.unwrap();
    let (mut served, _) = listener.accept().await.unwrap();
    served.write_all(b"x").await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), b'x');
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn listeners_and_connections_may_move_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    let mut listener = Listener::new(Script::default(), Arc::new(Semaphore::new(1)));
    is_send(&listener);
    is_send(&listener.accept());
    is_send(&listener.accept_or_close());
    is_send(&listener.throttle().enter());
}
