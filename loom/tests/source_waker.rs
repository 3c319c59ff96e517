//! A reader that sleeps until its source wakes it in another thread, under every interleaving with at most
//! three preemptions: it is polled once more after the source has become ready, and asks the source then.

#![cfg(tollgate_loom)]

#[path = "../../src/throttle/source_waker.rs"]
mod source_waker;

/// What the file takes from its crate.
mod sync {
    pub(crate) use loom::sync::atomic::AtomicUsize;
    pub(crate) use std::sync::atomic::Ordering;
}

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Mutex, Notify};
use loom::thread;

use self::source_waker::SourceWaker;

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(run);
}

/// Sleeps until it is woken.
struct Task(Notify);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// It is not ready until another thread says so.
struct Source {
    /// Relaxed: the lock of the waker orders it.
    ready: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl Source {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            ready: AtomicUsize::new(0),
            waker: Mutex::new(None),
        })
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if self.ready.load(Ordering::Relaxed) == 1 {
            return Poll::Ready(());
        }
        let mut waker = self.waker.lock().unwrap();
        *waker = Some(context.waker().clone());
        drop(waker);
        match self.ready.load(Ordering::Relaxed) {
            1 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// Becomes ready, and wakes by `waker` what waits for that.
    fn make_ready(&self, waker: impl FnOnce(&mut Option<Waker>) -> Option<Waker>) {
        self.ready.store(1, Ordering::Relaxed);
        let waker = waker(&mut self.waker.lock().unwrap());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Reads as a turn does, with one more poll than it is woken for, as another branch of a `select!` makes.
/// Returns how often it called the source.
fn read(source: &Source) -> usize {
    let mut asleep = None::<Weak<SourceWaker>>;
    let mut calls = 0;
    let task = Arc::new(Task(Notify::new()));
    let waker = Waker::from(Arc::clone(&task));
    let context = &mut Context::from_waker(&waker);
    loop {
        for _ in 0..2 {
            let is_awaited = |waker| SourceWaker::is_awaited(waker, context);
            if asleep.as_ref().is_some_and(is_awaited) {
                continue;
            }
            calls += 1;
            let call = |context: &mut Context<'_>| source.poll(context);
            if SourceWaker::poll(context, call, |waker| asleep = Some(waker)).is_ready() {
                return calls;
            }
        }
        task.0.wait();
    }
}

/// The source keeps the waker that it calls. A reader that finds it called calls the source once more, which
/// is ready by then.
#[test]
fn is_awaited_while_the_source_wakes_loses_no_wake() {
    model(|| {
        let source = Source::new();
        let other = {
            let source = Arc::clone(&source);
            thread::spawn(move || source.make_ready(|waker| waker.clone()))
        };
        assert!(read(&source) <= 2);
        other.join().unwrap();
    });
}

/// The source keeps no waker that it has called.
#[test]
fn is_awaited_while_the_source_wakes_and_drops_loses_no_wake() {
    model(|| {
        let source = Source::new();
        let other = {
            let source = Arc::clone(&source);
            thread::spawn(move || source.make_ready(|waker| waker.take()))
        };
        assert!(read(&source) <= 2);
        other.join().unwrap();
    });
}
