//! What holds for every one of these controllers, and the windows of their tests.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::adaptive::{Controller, SampleWindow};

use super::envoy_gradient::EnvoyGradient;
use super::gradient2::Gradient2;
use super::vegas::Vegas;

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

fn controllers() -> [Box<dyn Controller>; 3] {
    [
        Box::new(Vegas::new(20.0)),
        Box::new(Gradient2::new(20.0)),
        Box::new(EnvoyGradient::default()),
    ]
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

    /// `EnvoyGradient` goes to its minimum to measure.
    #[test]
    fn update_with_a_constant_latency_never_shrinks_the_limit(
        nanos in prop_oneof![Just(0), Just(u64::MAX), any::<u64>()],
        samples in 1..200u32,
    ) {
        let [vegas, gradient2, _] = controllers();
        for mut controller in [vegas, gradient2] {
            let mut limit = controller.initial().limit;
            for _ in 0..200 {
                let mut window = SampleWindow::new(limit);
                let in_flight = limit.round() as usize;
                (0..samples).for_each(|_| window.record(Duration::from_nanos(nanos), in_flight));
                let next = controller.update(&window).limit.min(1e6);
                prop_assert!(next >= limit, "{next} after {limit}");
                limit = next;
            }
        }
    }
}
