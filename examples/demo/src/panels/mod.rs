//! The panels: each makes its load and reports the results.

pub(crate) mod algorithms;
pub(crate) mod backend;
pub(crate) mod queue;
pub(crate) mod tenants;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_says_the_constants_of_the_load() {
        let page = concat!(include_str!("../page.html"), include_str!("../page.js"));
        let (busy, period) = (algorithms::BUSY, algorithms::PERIOD);
        for text in [
            format!(
                "for {} s of every {}",
                busy / 1_000_000_000,
                period / 1_000_000_000
            ),
            format!("makes {} calls a second", tenants::QUIET_RATE),
            format!("for {} ms", tenants::WORK.as_millis()),
            format!("waited {} s", tenants::PATIENCE.as_secs()),
            format!("PATIENCE = {};", tenants::PATIENCE.as_millis()),
            format!("within {} ms", backend::DEADLINE.as_millis()),
            format!(
                "The number of workers changes by itself, {:?}, each for {} s",
                backend::CYCLE,
                backend::STEP.as_secs()
            )
            .replace(['[', ']'], ""),
            format!("{} workers for each", backend::WORKERS_FOR_EACH),
            format!("Wait: p99 over {} s", tenants::WINDOW.as_secs()),
            format!("Latency: p99 over {} s", backend::WINDOW.as_secs()),
        ] {
            assert!(page.contains(&text), "{text}");
        }
    }
}
