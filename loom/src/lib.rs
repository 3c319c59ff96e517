//! Model checks of tollgate's protocols under loom: the harness of the models in `tests/`.
//!
//! A model is a `model!` of a name and a closure, which loom runs once for every interleaving of
//! its threads within a bound of preemptions. It makes what it checks, begins the threads,
//! does its own part, joins them, and asserts what holds at the end. Models that differ
//! in one step are one model of several variants.
//!
//! loom switches threads only at what it knows: atomics, locks and cells of loom, which tollgate
//! uses under `--cfg tollgate_loom`. A waiter that nobody wakes is a deadlock, which loom reports.
//! `Guarded` is what a permit protects: two accesses that are not ordered one after the other
//! fail the model, so such models show the memory ordering as well. `scripts/loom` runs them all.

#[cfg(tollgate_loom)]
pub use self::harness::*;

/// Makes a test of a model.
///
/// `model!(name, run)` allows three preemptions; `model!(name, preemptions, run)` as many as it
/// says, where more take minutes. Switches where a thread waits or ends are not counted.
/// `LOOM_MAX_PREEMPTIONS` replaces these bounds.
#[cfg(tollgate_loom)]
#[macro_export]
macro_rules! model {
    ($name:ident, $run:expr) => {
        $crate::model!($name, 3, $run);
    };
    ($name:ident, $preemptions:expr, $run:expr) => {
        #[test]
        fn $name() {
            $crate::check($preemptions, $run);
        }
    };
}

#[cfg(tollgate_loom)]
mod harness {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};
    use std::time::Duration;

    use loom::cell::UnsafeCell;
    pub use loom::future::block_on;
    pub use loom::thread::{JoinHandle, spawn, yield_now};
    use tollgate::{AcquireError, Clock, ErrorKind, ManualClock};

    /// A second.
    pub const SECOND: Duration = Duration::from_secs(1);
    /// An hour.
    pub const HOUR: Duration = Duration::from_secs(3600);

    /// Checks every interleaving with at most so many preemptions, or as many as
    /// `LOOM_MAX_PREEMPTIONS` says, and prints how many there were.
    pub fn check(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(preemptions);
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        builder.check(move || {
            count.fetch_add(1, Ordering::Relaxed);
            run();
        });
        println!("interleavings: {}", runs.load(Ordering::Relaxed));
    }

    /// Checks each of several variants of a model in this way.
    pub fn check_each<V: Copy + Send + Sync + 'static>(
        preemptions: usize,
        variants: impl IntoIterator<Item = V>,
        run: impl Fn(V) + Copy + Send + Sync + 'static,
    ) {
        for variant in variants {
            check(preemptions, move || run(variant));
        }
    }

    /// Begins a thread that shares something with the others.
    pub fn with<T: Clone + 'static, R: 'static>(
        shared: &T,
        run: impl FnOnce(&T) -> R + 'static,
    ) -> JoinHandle<R> {
        let shared = shared.clone();
        spawn(move || run(&shared))
    }

    /// Begins a thread that drops this.
    pub fn dropping<T: 'static>(dropped: T) -> JoinHandle<()> {
        spawn(move || drop(dropped))
    }

    /// Begins as many threads that share something, and do the same.
    pub fn each_with<const N: usize, T: Clone + 'static, R: 'static>(
        shared: &T,
        run: impl FnOnce(&T) -> R + Copy + 'static,
    ) -> [JoinHandle<R>; N] {
        [(); N].map(|()| with(shared, run))
    }

    /// Waits until these threads have ended, and returns what they did.
    pub fn join_all<const N: usize, R>(threads: [JoinHandle<R>; N]) -> [R; N] {
        threads.map(|thread| thread.join().unwrap())
    }

    /// Polls once, with a waker that does nothing.
    pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Returns a wait in its queue, whose waker does nothing.
    pub fn parked<F: Future + Unpin>(mut future: F) -> F {
        assert!(poll_once(&mut future).is_pending());
        future
    }

    /// Returns why it was refused, if it was.
    pub fn kind<T>(result: Result<T, AcquireError>) -> Option<ErrorKind> {
        result.err().map(|error| error.kind())
    }

    /// Lets go at once what was granted; a refusal is for this reason and no other.
    pub fn assert_granted_or<T>(refusal: ErrorKind, waited: Result<T, AcquireError>) {
        if let Err(error) = waited {
            assert_eq!(error.kind(), refusal);
        }
    }

    /// Returns a manual clock at a tick that is not zero.
    pub fn clock() -> ManualClock {
        let clock = Clock::manual();
        clock.advance(100 * SECOND);
        clock
    }

    /// Something that only one thread may touch at a time.
    #[derive(Default)]
    pub struct Guarded(UnsafeCell<()>);

    impl Guarded {
        /// Fails the model unless it is ordered before or after every other touch.
        pub fn touch(&self) {
            self.0.with_mut(|_| ());
        }
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A wait that is polled by hand, and counts how often it was woken.
    pub struct Waiter<F> {
        future: Pin<Box<F>>,
        wakes: Arc<Wakes>,
    }

    /// What came of a wait that was polled once: its output, or a waiter in the queue.
    pub type Joined<F> = Result<<F as Future>::Output, Waiter<F>>;

    impl<F: Future> Waiter<F> {
        /// Not polled yet.
        pub fn new(future: F) -> Self {
            let future = Box::pin(future);
            Self {
                future,
                wakes: Arc::default(),
            }
        }

        /// In the queue.
        pub fn queued(future: F) -> Self {
            let mut waiter = Self::new(future);
            assert!(waiter.poll().is_pending());
            waiter
        }

        /// Polls once, with a waker that counts.
        pub fn poll(&mut self) -> Poll<F::Output> {
            let waker = Waker::from(Arc::clone(&self.wakes));
            self.future.as_mut().poll(&mut Context::from_waker(&waker))
        }

        /// Joins the queue, unless it need not wait.
        pub fn join(mut self) -> Joined<F> {
            match self.poll() {
                Poll::Ready(output) => Ok(output),
                Poll::Pending => Err(self),
            }
        }

        /// Polls with another waker from now on, as a future that has moved to another task.
        pub fn moves(&mut self) {
            self.wakes = Arc::default();
        }

        /// How often it was woken.
        pub fn wakes(&self) -> usize {
            self.wakes.0.load(Ordering::SeqCst)
        }

        /// What it came to by now: it has been woken, since it had to wait.
        #[track_caller]
        pub fn output(mut self) -> F::Output {
            assert!(self.wakes() > 0, "not woken");
            match self.poll() {
                Poll::Ready(output) => output,
                Poll::Pending => panic!("woken for nothing"),
            }
        }
    }

    /// Joins a queue in a thread.
    pub fn joining<F: Future + 'static>(future: F) -> JoinHandle<Joined<F>> {
        spawn(move || Waiter::new(future).join())
    }

    /// What it came to by now, whether it had to wait or not.
    #[track_caller]
    pub fn output_of<F: Future>(joined: Joined<F>) -> F::Output {
        joined.unwrap_or_else(Waiter::output)
    }
}
