//! Controllers of other libraries, which the simulation runs beside those of tollgate.
//!
//! Each implements the public [`Controller`](tollgate::adaptive::Controller), with the defaults of its source.

pub(crate) mod envoy_gradient;
pub(crate) mod gradient2;
#[cfg(test)]
mod tests;
pub(crate) mod vegas;

use tollgate::adaptive::Target;

/// Returns a target with the windows of tollgate's controllers: each permit is used about twice, and at
/// least 64 samples are enough for a mean.
fn target(limit: f64) -> Target {
    // A float is converted with saturation.
    let samples = (2.0 * limit) as u32;
    Target {
        limit,
        samples: samples.max(64),
    }
}
