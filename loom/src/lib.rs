//! Checks models of tollgate's protocols under loom. This is the harness of the models in `tests/`.
//!
//! A model is a `model!` of a name and a closure, which loom runs once for every interleaving of
//! its threads within a bound of preemptions. The closure creates the checked object, starts the threads,
//! does its own part, joins them, and asserts the final state. Models that differ
//! in one step are one model with several variants.
//!
//! loom switches threads only at its own atomics, locks and cells, which tollgate
//! uses under `--cfg tollgate_loom`. A waiter that is never woken is a deadlock, which loom reports.
//! `Guarded` stands for the resource that a permit protects: two accesses without an order between them
//! fail the model, so such models check the memory ordering as well. `scripts/loom` runs all models.

#[cfg(tollgate_loom)]
pub use self::harness::*;

/// Defines a test for a model.
///
/// `model!(name, run)` allows three preemptions; `model!(name, preemptions, run)` allows the given
/// number, for models that take minutes with more. Switches where a thread waits or ends do not count.
/// `LOOM_EXTRA_PREEMPTIONS` adds to the bound of each model.
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
    use tollgate::time::ManualClock;
    use tollgate::{AcquireError, Clock, ErrorKind};

    /// One second.
    pub const SECOND: Duration = Duration::from_secs(1);
    /// One hour.
    pub const HOUR: Duration = Duration::from_secs(3600);

    /// Checks every interleaving with at most `preemptions` preemptions, plus the number in
    /// `LOOM_EXTRA_PREEMPTIONS`, and prints the number of interleavings.
    pub fn check(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        // One bound for all models would never end where three threads rewrite a ring, and would miss
        // schedules of small models.
        builder.preemption_bound = Some(preemptions + extra_preemptions());
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        builder.check(move || {
            count.fetch_add(1, Ordering::Relaxed);
            run();
        });
        println!("interleavings: {}", runs.load(Ordering::Relaxed));
    }

    fn extra_preemptions() -> usize {
        let extra = std::env::var("LOOM_EXTRA_PREEMPTIONS");
        extra.map_or(0, |extra| extra.parse().expect("a number of preemptions"))
    }

    /// Checks each of several variants of a model like [`check`].
    pub fn check_each<V: Copy + Send + Sync + 'static>(
        preemptions: usize,
        variants: impl IntoIterator<Item = V>,
        run: impl Fn(V) + Copy + Send + Sync + 'static,
    ) {
        for variant in variants {
            check(preemptions, move || run(variant));
        }
    }

    /// Starts a thread that shares a value with the others.
    pub fn with<T: Clone + 'static, R: 'static>(
        shared: &T,
        run: impl FnOnce(&T) -> R + 'static,
    ) -> JoinHandle<R> {
        let shared = shared.clone();
        spawn(move || run(&shared))
    }

    /// Starts a thread that drops the value.
    pub fn dropping<T: 'static>(dropped: T) -> JoinHandle<()> {
        spawn(move || drop(dropped))
    }

    /// Starts `N` threads that share a value, and do the same.
    pub fn each_with<const N: usize, T: Clone + 'static, R: 'static>(
        shared: &T,
        run: impl FnOnce(&T) -> R + Copy + 'static,
    ) -> [JoinHandle<R>; N] {
        [(); N].map(|()| with(shared, run))
    }

    /// Waits until these threads have ended, and returns their results.
    pub fn join_all<const N: usize, R>(threads: [JoinHandle<R>; N]) -> [R; N] {
        threads.map(|thread| thread.join().unwrap())
    }

    /// Polls once, with a waker that does nothing.
    pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Returns the output of a future that moves to another task after its first poll: its first waker does
    /// nothing, so only the second can end this.
    pub fn moved<F: Future + Unpin>(mut future: F) -> F::Output {
        match poll_once(&mut future) {
            Poll::Ready(output) => output,
            Poll::Pending => block_on(future),
        }
    }

    /// Returns a wait that is in its queue, and whose waker does nothing.
    pub fn parked<F: Future + Unpin>(mut future: F) -> F {
        assert!(poll_once(&mut future).is_pending());
        future
    }

    /// Returns the kind of the error, if there is one.
    pub fn kind<T>(result: Result<T, AcquireError>) -> Option<ErrorKind> {
        result.err().map(|error| error.kind())
    }

    /// Drops a grant at once, and asserts that a refusal has this kind.
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

    /// An object that only one thread may touch at a time.
    #[derive(Default)]
    pub struct Guarded(UnsafeCell<()>);

    impl Guarded {
        /// Fails the model unless this touch is ordered before or after every other one.
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

    /// A wait that is polled by hand, and counts its wakes.
    pub struct Waiter<F> {
        future: Pin<Box<F>>,
        wakes: Arc<Wakes>,
    }

    /// The result of a wait that was polled once: its output, or a waiter in the queue.
    pub type Joined<F> = Result<<F as Future>::Output, Waiter<F>>;

    impl<F: Future> Waiter<F> {
        /// Creates a waiter that was not polled yet.
        pub fn new(future: F) -> Self {
            let future = Box::pin(future);
            Self {
                future,
                wakes: Arc::default(),
            }
        }

        /// Creates a waiter that is in the queue.
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

        /// Joins the queue, unless no wait is needed.
        pub fn join(mut self) -> Joined<F> {
            match self.poll() {
                Poll::Ready(output) => Ok(output),
                Poll::Pending => Err(self),
            }
        }

        /// Returns the number of wakes.
        pub fn wakes(&self) -> usize {
            self.wakes.0.load(Ordering::SeqCst)
        }

        /// Returns the output, which must be ready. The waiter must have been woken, since it had to wait.
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

    /// Returns the output, which must be ready, whether a wait was needed or not.
    #[track_caller]
    pub fn output_of<F: Future>(joined: Joined<F>) -> F::Output {
        joined.unwrap_or_else(Waiter::output)
    }
}
