//! [`Listener`]: accepts connections behind a throttle.
//!
//! 1. A permit that was granted stays in the listener until a connection takes it, and so does a wait. A future
//!    of [`Listener::accept`] that is dropped loses neither.
//! 2. A failure of the inner listener blocks a gate in front of the throttle, and gives the permit back.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;

use tollgate::throttle::{Gated, RollbackGuard};
use tollgate::{AcquireError, Clock, ErrorKind, Gate, Throttle, TryThrottle};

/// The shortest and the longest pause after a failure, as in the servers of Go.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

type Enter<T> = <Gated<Gate, T> as Throttle>::Enter;

/// A source of connections: a listening socket, or a wrapper of one.
pub trait Accept {
    /// A connection.
    type Io;
    /// The address of its peer.
    type Addr;

    /// Accepts a connection. It is cancel-safe: a connection is returned or is still to come.
    ///
    /// # Errors
    ///
    /// [`ConnectionAborted`](io::ErrorKind::ConnectionAborted), [`ConnectionReset`](io::ErrorKind::ConnectionReset)
    /// and [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) are of one connection. All others are of the
    /// listener or the process, such as that it has too many open files.
    fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Self::Io, Self::Addr)>>;
}

impl Accept for TcpListener {
    type Io = tokio::net::TcpStream;
    type Addr = SocketAddr;

    fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Self::Io, Self::Addr)>> {
        TcpListener::poll_accept(self, context)
    }
}

#[cfg(unix)]
impl Accept for tokio::net::UnixListener {
    type Io = tokio::net::UnixStream;
    type Addr = tokio::net::unix::SocketAddr;

    fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Self::Io, Self::Addr)>> {
        tokio::net::UnixListener::poll_accept(self, context)
    }
}

/// A listener whose connections hold a permit of a throttle until they are closed.
///
/// The throttle may be any one: a semaphore for the number of open connections, a rate limiter for new
/// connections per second, [`all`](tollgate::all) of both. [`accept`](Self::accept) waits for a permit and
/// leaves connections in the backlog of the system meanwhile; [`accept_or_close`](Self::accept_or_close)
/// accepts each one, and closes it at once if the throttle refuses.
///
/// # Errors of the system
///
/// An error of one connection is skipped. After any other, such as `EMFILE` (too many open files), the listener
/// pauses for 5 milliseconds, and after each further one for twice as long, up to a second, as the servers of Go
/// do; it gives its permit back for that time. [`on_error`](Self::on_error) reports them all.
///
/// # Permits
///
/// A listener that waits for a connection holds the permit of the next one, so a semaphore of `n` permits
/// allows `n` open connections, and shows one more permit in use than there are connections. Dropping the
/// listener rolls it back: drop it before [`wait_idle`](tollgate::Semaphore::wait_idle). Each listener holds
/// one, also of a throttle that several share. A rate limiter is charged when the listener begins to wait, and
/// time pays that off: after a quiet time it accepts one connection more than the burst at once.
/// [`accept_or_close`](Self::accept_or_close) holds nothing while it waits, and enters when a connection has
/// come, as an adaptive limit needs it, which measures from its permit on. The permit of a connection returns
/// when the [`Connection`] is dropped, after the connection is closed.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::{TcpListener, TcpStream};
/// use tollgate::Semaphore;
/// use tollgate_io::Listener;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let socket = TcpListener::bind("127.0.0.1:0").await?;
/// let address = socket.local_addr()?;
/// let mut listener = Listener::new(socket, Arc::new(Semaphore::new(1000)));
/// tokio::spawn(async move {
///     while let Ok((mut connection, _peer)) = listener.accept().await {
///         tokio::spawn(async move { connection.write_all(b"hello").await });
///     }
/// });
///
/// let mut greeting = String::new();
/// TcpStream::connect(address).await?.read_to_string(&mut greeting).await?;
/// assert_eq!(greeting, "hello");
/// # Ok(())
/// # }
/// ```
pub struct Listener<L, T: Throttle> {
    inner: L,
    throttle: T,
    pause: Gate,
    /// Failures since the last connection.
    failures: u32,
    enter: Option<Pin<Box<Enter<T>>>>,
    /// The permit of the next connection.
    permit: Option<RollbackGuard<T>>,
    on_error: Box<dyn FnMut(&io::Error) + Send>,
}

impl<L, T: Throttle> Listener<L, T> {
    /// Creates a listener whose connections hold a permit of `throttle`.
    pub fn new(inner: L, throttle: T) -> Self {
        Self {
            inner,
            throttle,
            pause: Gate::new(),
            failures: 0,
            enter: None,
            permit: None,
            on_error: Box::new(|_| {}),
        }
    }

    /// Sets the clock of the pauses after failures. The default is [`Clock::default`].
    ///
    /// # Panics
    ///
    /// Panics if the listener has been used.
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.pause = self.pause.clock(clock);
        self
    }

    /// Calls `report` with each error of the inner listener. It must not block.
    #[must_use]
    pub fn on_error(mut self, report: impl FnMut(&io::Error) + Send + 'static) -> Self {
        self.on_error = Box::new(report);
        self
    }

    /// Returns the inner listener, for example for its address.
    pub fn get_ref(&self) -> &L {
        &self.inner
    }

    /// Returns the throttle.
    pub fn throttle(&self) -> &T {
        &self.throttle
    }

    /// Reports a failure of the inner listener, and pauses.
    fn failed(&mut self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        (self.on_error)(error);
        if matches!(
            error.kind(),
            ConnectionAborted | ConnectionRefused | ConnectionReset
        ) {
            return;
        }
        let [shortest, longest] = PAUSES;
        let pause = shortest.saturating_mul(1 << self.failures.min(31));
        self.failures = self.failures.saturating_add(1);
        self.pause.block_for(pause.min(longest));
        self.permit = None;
    }
}

impl<L: Accept, T: Throttle> Listener<L, T> {
    /// Waits for a permit, and then for a connection.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped, as in a `select!` with a shutdown: no connection, no permit,
    /// and no place in the queue of the throttle, which the listener keeps for the next call.
    ///
    /// # Errors
    ///
    /// Those of the throttle, such as [`Closed`](ErrorKind::Closed). Errors of the inner listener are
    /// [skipped](Self#errors-of-the-system).
    ///
    /// A listener that has the permit of the next connection does not notice that the throttle is closed before that
    /// connection has come. To end a loop at once, drop this future and the listener, for example by
    /// `token.run_until_cancelled(listener.accept())`.
    pub async fn accept(
        &mut self,
    ) -> Result<(Connection<L::Io, T::Permit>, L::Addr), AcquireError> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// Polls [`accept`](Self::accept).
    ///
    /// It makes a stream: `stream::poll_fn(|context| listener.poll_accept(context).map(Some))`.
    ///
    /// # Errors
    ///
    /// Those of [`accept`](Self::accept).
    #[expect(clippy::type_complexity, reason = "the type of `accept`")]
    pub fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Connection<L::Io, T::Permit>, L::Addr), AcquireError>> {
        loop {
            let permit = match self.permit.take() {
                Some(permit) => permit,
                None => {
                    let permit = ready!(self.poll_enter(context))?;
                    RollbackGuard::new(self.throttle.clone(), permit)
                }
            };
            match self.inner.poll_accept(context) {
                Poll::Ready(Ok((io, peer))) => {
                    self.failures = 0;
                    let permit = permit.disarm();
                    return Poll::Ready(Ok((Connection { io, permit }, peer)));
                }
                Poll::Ready(Err(error)) => {
                    self.permit = Some(permit);
                    self.failed(&error);
                }
                Poll::Pending => {
                    self.permit = Some(permit);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Waits for a permit; the wait stays in the listener.
    fn poll_enter(&mut self, context: &mut Context<'_>) -> Poll<Result<T::Permit, AcquireError>> {
        let enter = match &mut self.enter {
            Some(enter) => enter,
            None => {
                let gated = self.pause.before(self.throttle.clone());
                if let Some(permit) = gated.enter_now() {
                    return Poll::Ready(Ok(permit));
                }
                self.enter.insert(Box::pin(gated.enter().into_inner()))
            }
        };
        let entered = ready!(enter.as_mut().poll(context));
        self.enter = None;
        Poll::Ready(entered)
    }

    /// Waits for a connection, and closes it at once if the throttle refuses, until one is admitted.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use tokio::net::TcpListener;
    /// use tollgate::Semaphore;
    /// use tollgate_io::Listener;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let socket = TcpListener::bind("127.0.0.1:8080").await?;
    /// let mut listener = Listener::new(socket, Arc::new(Semaphore::new(1000)));
    /// loop {
    ///     let (connection, _peer) = listener.accept_or_close().await?;
    ///     tokio::spawn(async move { drop(connection) });
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    ///
    /// # Errors
    ///
    /// [`Closed`](ErrorKind::Closed) and [`ExceedsCapacity`](ErrorKind::ExceedsCapacity) when a connection
    /// comes that is refused in this way, as each later one would be; the connection is closed, too.
    pub async fn accept_or_close(
        &mut self,
    ) -> Result<(Connection<L::Io, T::Permit>, L::Addr), AcquireError>
    where
        T: TryThrottle,
    {
        // Of an earlier `accept`: nobody would look after the wait, and the permit is not of this connection.
        (self.enter, self.permit) = (None, None);
        loop {
            self.pause.acquire().await?;
            let accepted = poll_fn(|context| self.inner.poll_accept(context)).await;
            let (io, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.failed(&error);
                    continue;
                }
            };
            self.failures = 0;
            match self.throttle.try_enter() {
                Ok(permit) => return Ok((Connection { io, permit }, peer)),
                Err(error) if is_final(error.kind()) => return Err(error),
                Err(_) => {}
            }
        }
    }
}

/// Returns whether no later connection would be admitted either.
fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Closed | ErrorKind::ExceedsCapacity)
}

impl<L: fmt::Debug, T: Throttle + fmt::Debug> fmt::Debug for Listener<L, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("inner", &self.inner)
            .field("throttle", self.throttle())
            .field("has_permit", &self.permit.is_some())
            .finish_non_exhaustive()
    }
}

/// A connection of a [`Listener`], which holds a permit until it is dropped.
///
/// It reads and writes as the connection that it contains.
#[pin_project]
#[derive(Debug)]
pub struct Connection<I, P> {
    // Dropped first, so that the connection is closed when the permit returns.
    #[pin]
    io: I,
    permit: P,
}

impl<I, P> Connection<I, P> {
    /// Returns the connection itself.
    pub fn get_ref(&self) -> &I {
        &self.io
    }

    /// Returns the connection itself.
    pub fn get_mut(&mut self) -> &mut I {
        &mut self.io
    }

    /// Returns the permit.
    pub fn permit(&self) -> &P {
        &self.permit
    }

    /// Takes the connection and its permit apart: keep the permit for as long as the connection.
    pub fn into_parts(self) -> (I, P) {
        (self.io, self.permit)
    }
}

impl<I: AsyncRead, P> AsyncRead for Connection<I, P> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().io.poll_read(context, buffer)
    }
}

impl<I: AsyncWrite, P> AsyncWrite for Connection<I, P> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().io.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().io.poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
