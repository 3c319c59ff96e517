//! [`Alarm`]: settles an origin at a tick of the clock, without a task or thread of its own.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tollgate::time::Tick;
use tollgate::wait::Waiting;
use tollgate::{Clock, Gate, Throttle};

use super::origin::Origin;
use super::table::Shared;

/// The wait for a time, on the timer of a clock.
pub(super) type Sleep = Pin<Box<Waiting<<Gate as Throttle>::Enter>>>;

/// Returns a future that ends after a time.
pub(super) fn sleep(clock: &Clock, duration: Duration) -> Sleep {
    let gate = Gate::new().clock(clock);
    gate.block_for(duration);
    Box::pin(gate.acquire_owned())
}

/// What an alarm calls.
pub(super) struct OnAlarm {
    shared: Weak<Shared>,
    origin: Box<str>,
    /// Written and read with the lock of the table.
    has_fired: AtomicBool,
}

impl Wake for OnAlarm {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.shared.upgrade() {
            let table = shared.lock();
            self.has_fired.store(true, Ordering::Relaxed);
            drop(table);
            let fired = shared.change(&self.origin, shared.now(), Origin::take_alarm);
            drop(fired);
        }
    }
}

/// Settles an origin at a tick, unless it is dropped before.
pub(super) struct Alarm {
    pub(super) due: Tick,
    on_alarm: Arc<OnAlarm>,
    _sleep: Sleep,
}

impl Alarm {
    /// Sets an alarm, unless it is due already. It may fire at once, so this needs to be called without the lock.
    pub(super) fn new(shared: &Arc<Shared>, origin: &str, due: Tick) -> Option<Self> {
        let on_alarm = Arc::new(OnAlarm {
            shared: Arc::downgrade(shared),
            origin: origin.into(),
            has_fired: AtomicBool::new(false),
        });
        let (clock, waker) = (&shared.settings.clock, Waker::from(Arc::clone(&on_alarm)));
        let mut sleep = sleep(clock, due.saturating_since(clock.now()));
        let polled = sleep.as_mut().poll(&mut Context::from_waker(&waker));
        polled.is_pending().then_some(Self {
            due,
            on_alarm,
            _sleep: sleep,
        })
    }

    /// Returns whether it has fired, or will settle the origin without being stored. Requires the lock.
    pub(super) fn has_fired(&self) -> bool {
        self.on_alarm.has_fired.load(Ordering::Relaxed)
    }
}
