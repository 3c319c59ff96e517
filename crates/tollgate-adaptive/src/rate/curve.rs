//! [`Curve`]: the rate as a function of the time since a cut. It is that of CUBIC (RFC 9438, section 4.2).
//!
//! 1. The curve begins at [`KEPT`] of the plateau, is at the plateau after `K`, and mirrors itself
//!    there: at `2 K` it is as far above the plateau as it began below.
//! 2. From `2 K` on, the plateau no longer matters: the curve *searches*, and doubles every [`DOUBLING`],
//!    or every [`DOUBLING_BELOW`] as long as it is below the remembered rate. The polynomial of the RFC
//!    would take ever longer to double.
//! 3. The curve is continuous, never falls, and is positive for a positive plateau.

/// The share of the plateau that remains after a cut, `beta_cubic`. The RFC has 0.7, because a TCP
/// sender has to empty the queue that it has filled. A server that refuses has no queue to empty,
/// and with 0.7 a client of a server without a burst loses a quarter of the 0.3 on average: more
/// than 5 %.
pub(super) const KEPT: f64 = 0.85;

/// `C` in relation to the plateau, per second cubed: it makes `K` 4.2 seconds. So a server that
/// does not change refuses a client about once in seven seconds, and a search begins 8.4 seconds
/// after a cut. With a longer `K` the rate finds a faster server later, and with a shorter one it
/// is refused more often.
const SCALE: f64 = 0.002;

/// The factor between the remembered rate and the plateau at which the server counts as much slower
/// than before, and may become as fast as before. Then `C` is in relation to the remembered rate,
/// and `K` is 2 seconds at a tenth of it. Clients that share a server, and plateaus that differ by
/// chance, stay below this factor.
const MUCH: f64 = 4.0;

/// The least `K`, in pauses of the length for which the refusal asked: the next refusal then comes some
/// twenty pauses later, and pauses cost a twentieth of the time.
const PAUSES: f64 = 12.0;

/// The greatest `K` for a pause, in seconds: a server may ask for an hour for another reason than its rate.
const LONGEST: f64 = 1_800.0;

/// The least `K`, in calls at the plateau: one in about eighty is then refused. It counts below twelve a
/// second.
const CALLS: f64 = 50.0;

/// The seconds in which a search doubles the rate. It takes longer in proportion if `K` does.
const DOUBLING: f64 = 1.25;

/// The same below the remembered rate. A shorter time gains nothing if a round trip takes longer.
const DOUBLING_BELOW: f64 = 0.2;

/// The rate, per second, below which a search without a plateau doubles in calls and not in seconds: a call below the
/// remembered rate.
const SLOW: f64 = 5.0;

/// `W(t) = C (t - K)^3 + W_max`, with `K = cbrt(W_max (1 - KEPT) / C)`. It has `K` in place of `C`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Curve {
    /// `W_max`.
    plateau: f64,
    /// `K`, in seconds.
    recovery: f64,
    /// Below this rate a search doubles faster.
    remembered: f64,
    /// How much longer than usual it takes to double.
    stretch: f64,
}

impl Curve {
    /// Creates the curve after a cut by a refusal that paused the client for `pause` seconds. Its `C` is
    /// proportional to the plateau, so that it takes the same time at every rate; a remembered rate counts
    /// instead if it is [`MUCH`] higher. It takes longer if the next refusal will cost much.
    pub(super) fn after_cut(plateau: f64, remembered: f64, pause: f64) -> Self {
        let recovery = |usual: f64| (plateau * (1.0 - KEPT) / (SCALE * usual)).cbrt();
        let least = (PAUSES * pause).min(LONGEST).max(CALLS / plateau);
        let is_much = remembered > MUCH * plateau && recovery(remembered) >= least;
        let usual = if is_much { remembered } else { plateau };
        Self {
            plateau,
            recovery: recovery(usual).max(least),
            remembered: usual,
            stretch: (least / recovery(plateau)).max(1.0),
        }
    }

    /// Creates a curve that searches upward from a rate.
    pub(super) const fn search(rate: f64, remembered: f64) -> Self {
        Self {
            plateau: rate,
            recovery: 0.0,
            remembered,
            stretch: if rate < SLOW { SLOW / rate } else { 1.0 },
        }
    }

    fn cubic(&self, seconds: f64) -> f64 {
        if self.recovery == 0.0 {
            return self.plateau;
        }
        let relative = seconds / self.recovery - 1.0;
        self.plateau * (1.0 + (1.0 - KEPT) * relative.powi(3))
    }

    /// Returns whether the curve searches at this number of seconds after the cut.
    pub(super) fn searches_at(&self, seconds: f64) -> bool {
        seconds >= 2.0 * self.recovery
    }

    /// Returns the rate at this number of seconds after the cut. It may be infinite.
    pub(super) fn rate_at(&self, seconds: f64) -> f64 {
        let mirrored = seconds.min(2.0 * self.recovery);
        let rate = self.cubic(mirrored);
        let searching = seconds - mirrored;
        let below = (self.remembered / rate).max(1.0).log2();
        let [fast, usual] = [DOUBLING_BELOW, DOUBLING].map(|it| it * self.stretch);
        let below = searching.min(below * fast);
        rate * (below / fast + (searching - below) / usual).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_at_has_the_closed_form_of_the_rfc() {
        // W_max 100; K follows from C.
        let curve = Curve::after_cut(100.0, 0.0, 0.0);
        let recovery = (100.0 * (1.0 - KEPT) / (SCALE * 100.0)).cbrt();
        for seconds in [0.0, 1.0, 4.0, 8.0] {
            let rfc = SCALE * 100.0 * (seconds - recovery).powi(3) + 100.0;
            assert!((curve.rate_at(seconds) - rfc).abs() < 1e-9);
        }
    }

    #[test]
    fn after_cut_recovers_in_the_same_time_at_every_rate() {
        for plateau in [20.0, 500.0, 1e9] {
            let curve = Curve::after_cut(plateau, 0.0, 0.0);
            assert!((curve.recovery - 4.217).abs() < 0.0005);
            assert!((curve.rate_at(0.0) / plateau - 0.85).abs() < 1e-9);
            assert!((curve.rate_at(2.0 * curve.recovery) / plateau - 1.15).abs() < 1e-9);
        }
    }

    #[test]
    fn after_cut_takes_fifty_calls_or_twelve_pauses() {
        for (plateau, pause, recovery) in [
            (10.0, 0.0, 5.0),
            (0.1, 0.0, 500.0),
            (0.1, 30.0, 500.0),
            (0.1, 60.0, 720.0),
            (100.0, 0.3, 4.217),
            (100.0, 5.0, 60.0),
            (100.0, 3_600.0, 1_800.0),
        ] {
            for remembered in [0.0, 2.0 * plateau] {
                let curve = Curve::after_cut(plateau, remembered, pause);
                assert!((curve.recovery - recovery).abs() < 0.0005);
                assert!((curve.rate_at(curve.recovery) / plateau - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn rate_at_doubles_where_the_curve_searches() {
        let curve = Curve::after_cut(100.0, 100.0, 0.0);
        let begins = 2.0 * curve.recovery;
        assert!(!curve.searches_at(begins - 0.001));
        assert!(curve.searches_at(begins));
        let doubled = curve.rate_at(begins + DOUBLING) / curve.rate_at(begins);
        assert!((doubled - 2.0).abs() < 1e-9);
        // Four times the plateau within eleven seconds of a cut.
        assert!(curve.rate_at(11.0) > 400.0);
    }

    #[test]
    fn rate_at_below_the_remembered_rate_is_soon_there() {
        // Less than four times as much counts as the plateau.
        let curve = Curve::after_cut(100.0, 400.0, 0.0);
        assert!((curve.recovery - 4.217).abs() < 0.0005);
        assert!((curve.rate_at(2.0 * curve.recovery + DOUBLING) - 230.0).abs() < 1e-9);

        let curve = Curve::after_cut(30.0, 300.0, 0.0);
        assert!((curve.recovery - 1.957).abs() < 0.0005);
        let begins = 2.0 * curve.recovery;
        assert!((curve.rate_at(begins) - 34.5).abs() < 1e-9);
        assert!((curve.rate_at(begins + 2.0 * DOUBLING_BELOW) - 4.0 * 34.5).abs() < 1e-9);
        let there = begins + DOUBLING_BELOW * (300.0_f64 / 34.5).log2();
        assert!((curve.rate_at(there) - 300.0).abs() < 1e-9);
        assert!((curve.rate_at(there + DOUBLING) - 600.0).abs() < 1e-9);
    }

    #[test]
    fn search_begins_at_the_rate() {
        let curve = Curve::search(10.0, 0.0);
        assert!(curve.searches_at(0.0));
        assert_eq!((curve.rate_at(0.0), curve.rate_at(DOUBLING)), (10.0, 20.0));
        let curve = Curve::search(10.0, 40.0);
        for (seconds, rate) in [(0.0, 10.0), (0.4, 40.0), (1.65, 80.0)] {
            assert!((curve.rate_at(seconds) - rate).abs() < 1e-9);
        }
    }

    #[test]
    fn rate_at_of_few_calls_takes_longer_to_double() {
        let curve = Curve::search(0.1, 0.0);
        assert!((curve.rate_at(50.0 * DOUBLING) - 0.2).abs() < 1e-9);
        // After an outage each call doubles it.
        let curve = Curve::search(0.1, 300.0);
        assert!((curve.rate_at(20.0) - 0.4).abs() < 1e-9);

        // A pause of five seconds costs more than the remembered rate is worth.
        for curve in [
            Curve::after_cut(30.0, 300.0, 5.0),
            Curve::after_cut(30.0, 0.0, 5.0),
        ] {
            assert!((curve.recovery - 60.0).abs() < 1e-9);
            let (begins, stretch) = (2.0 * curve.recovery, curve.recovery / 4.217_163);
            assert!((curve.rate_at(begins) - 34.5).abs() < 1e-9);
            assert!((curve.rate_at(begins + DOUBLING * stretch) - 69.0).abs() < 1e-3);
        }
    }

    #[test]
    fn rate_at_never_falls() {
        for curve in [
            Curve::after_cut(7.0, 0.0, 0.0),
            Curve::after_cut(7.0, 700.0, 0.0),
            Curve::search(7.0, 700.0),
        ] {
            let rates: Vec<_> = (0..20_000)
                .map(|ms| curve.rate_at(f64::from(ms) / 1e3))
                .collect();
            assert!(rates.is_sorted());
            assert_eq!(curve.rate_at(1e9), f64::INFINITY);
        }
    }
}
