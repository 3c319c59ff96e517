//! Tests that hold for every controller, and the windows that they use.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// A window of one call.
pub(super) fn window(limit: f64, milliseconds: u64, in_flight: usize) -> SampleWindow {
    let mut window = SampleWindow::new(limit);
    window.record(Duration::from_millis(milliseconds), in_flight);
    window
}

/// A window of one call that was overloaded.
pub(super) fn overloaded(limit: f64) -> SampleWindow {
    let mut window = SampleWindow::new(limit);
    window.record_overloaded(limit as usize);
    window
}

fn controllers() -> [Box<dyn Controller>; 2] {
    [Box::new(Gradient::default()), Box::new(Aimd::default())]
}

/// A call: its latency in nanoseconds, or overloaded; and how many were in flight.
type Call = (Option<u64>, usize);

fn call() -> impl Strategy<Value = Call> {
    let latency = prop_oneof![Just(0), Just(u64::MAX), 1..1_000_000_000u64];
    let in_flight = prop_oneof![Just(0), Just(usize::MAX), 1..2_000usize];
    (prop::option::weighted(0.8, latency), in_flight)
}

proptest! {
    #[test]
    fn update_with_any_windows_gives_a_finite_limit_above_0(
        windows in prop::collection::vec(prop::collection::vec(call(), 0..5), 1..200),
        max in prop_oneof![Just(1.0), Just(1_000.0), Just(usize::MAX as f64)],
    ) {
        for mut controller in controllers() {
            let mut target = controller.initial();
            for calls in &windows {
                let mut window = SampleWindow::new(target.limit.clamp(1.0, max));
                for (latency, in_flight) in calls {
                    match latency {
                        Some(nanos) => window.record(Duration::from_nanos(*nanos), *in_flight),
                        None => window.record_overloaded(*in_flight),
                    }
                }
                target = controller.update(&window);
                prop_assert!(target.limit.is_finite() && target.limit > 0.0, "{target:?}");
                prop_assert!(target.samples > 0);
            }
        }
    }

    /// Only the window of a probe has a lower limit.
    #[test]
    fn update_with_a_constant_latency_never_shrinks_the_limit(
        nanos in prop_oneof![Just(0), Just(u64::MAX), any::<u64>()],
        samples in 1..200u32,
    ) {
        let [gradient, _] = controllers();
        // A latency above the timeout counts as overload.
        let aimd = Box::new(Aimd::default().timeout(Duration::MAX));
        for mut controller in [gradient, aimd] {
            let mut limit = controller.initial().limit;
            let mut highest = limit;
            let mut low = 0;
            for _ in 0..200 {
                let mut window = SampleWindow::new(limit);
                let in_flight = limit.round() as usize;
                (0..samples).for_each(|_| window.record(Duration::from_nanos(nanos), in_flight));
                limit = controller.update(&window).limit.min(1e6);
                low = if limit < highest { low + 1 } else { 0 };
                highest = highest.max(limit);
                prop_assert!(low <= 1, "{limit} after {highest}");
            }
        }
    }
}

#[test]
fn fmt_window_without_latencies_says_none() {
    let empty = SampleWindow::new(20.0);
    assert_eq!(
        format!("{empty:?}"),
        "SampleWindow { limit: 20.0, samples: 0, overloaded: 0, mean_latency: None, \
         min_latency: None, max_in_flight: 0, .. }"
    );
    let mut window = empty;
    window.record(Duration::from_millis(4), 3);
    window.record_overloaded(5);
    assert_eq!(
        format!("{window:?}"),
        "SampleWindow { limit: 20.0, samples: 2, overloaded: 1, mean_latency: Some(4ms), \
         min_latency: Some(4ms), max_in_flight: 5, .. }"
    );
}
