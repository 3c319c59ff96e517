//! The events of an observed throttle.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tollgate::{Clock, Semaphore, Throttle};
use tollgate_observe::{Observed, Traced};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::with_default;
use tracing::{Event, Metadata, Subscriber};

use super::SECOND;
use super::decisions::decide;
use crate::support::Waiter;

/// Keeps all events as text.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}").replace(file!(), "here");
        // A place without its column.
        let line = value.rsplit_once(':').filter(|_| field.name() == "place");
        let value = line.map_or(&*value, |(line, _)| line);
        write!(self.0, " {field}={value}").unwrap();
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tollgate"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        panic!("there are no spans");
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = event.metadata().level().to_string();
        event.record(&mut Fields(&mut text));
        self.0.lock().unwrap().push(text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The events of a run.
fn events(run: impl FnOnce()) -> Vec<String> {
    let events = Events::default();
    with_default(events.clone(), run);
    std::mem::take(&mut *events.0.lock().unwrap())
}

#[test]
fn waits_are_debug_events_and_long_ones_warnings() {
    let mut line = 0;
    let events = events(|| {
        let (clock, semaphore) = (Clock::manual(), Semaphore::new(1));
        let traced = Traced::new("slots").warn_wait(2 * SECOND).clock(&clock);
        let slots = Observed::new(&semaphore, &traced).clock(&clock);
        // Ready entries emit no event, admitted or refused, and neither do their permits.
        let held = slots.try_acquire().unwrap();
        assert!(slots.try_acquire().is_err());
        line = line!() + 1;
        let mut waits = [(); 4].map(|()| Waiter::parked(slots.acquire()));
        clock.advance(SECOND);
        drop(held);
        drop(waits[0].granted());
        clock.advance(SECOND);
        drop(waits[1].granted());
        semaphore.set_permits(0);
        semaphore.close();
        // The third was granted before the limit was lowered.
        drop(waits[2].granted());
        waits[3].refused();
        drop(waits);
    });
    let place = |end: &str, level: &str, waited: f64, error: &str| {
        format!("{level} message={end} limit=\"slots\" place=here:{line} waited={waited:?}{error}")
    };
    let [admitted, long, granted, refused] = &events[..] else {
        panic!("{events:#?}");
    };
    assert_eq!(*admitted, place("a wait was admitted", "DEBUG", 1.0, ""));
    assert_eq!(*long, place("a long wait was admitted", "WARN", 2.0, ""));
    assert_eq!(*granted, *long);
    let error = " error=the throttle is closed";
    assert_eq!(
        *refused,
        place("a long wait was refused", "WARN", 2.0, error)
    );
}

#[test]
fn abandoned_wait_is_an_event() {
    let events = events(|| {
        let semaphore = Semaphore::new(0);
        let slots = Observed::new(&semaphore, Traced::new("slots")).clock(Clock::manual());
        drop(Waiter::parked(slots.acquire()));
    });
    assert_eq!(events.len(), 1);
    assert!(events[0].starts_with("DEBUG message=a wait was abandoned limit=\"slots\" "));
}

#[test]
fn permits_that_were_held_for_long_are_warnings() {
    let mut line = 0;
    let events = events(|| {
        let (clock, semaphore) = (Clock::manual(), Semaphore::new(3));
        let traced = Traced::new("slots").warn_hold(2 * SECOND).clock(&clock);
        let slots = Observed::new(&semaphore, &traced);
        line = line!() + 1;
        let permits = [(); 3].map(|()| slots.try_acquire().unwrap());
        let [short, long, unused] = permits;
        clock.advance(SECOND);
        drop(short);
        clock.advance(SECOND);
        drop(long);
        slots.rollback(unused);
    });
    let expected = format!(
        "WARN message=a permit was held for a long time limit=\"slots\" place=here:{line} held=2.0"
    );
    assert_eq!(events, [expected]);
}

#[test]
fn decided_is_an_event_with_its_reason() {
    let events = events(|| drop(decide(Traced::new("backend"))));
    assert_eq!(
        events,
        [
            "DEBUG message=a limit was decided limit=\"backend\" before=10.0 after=5.0 reason=\"probe\" \
             baseline=1.0 latency=2.0 samples=4 overloaded=1"
        ]
    );
}
