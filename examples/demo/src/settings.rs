//! The sliders of the page, and their values.
//!
//! 1. A value is a whole number within the bounds of its slider.
//! 2. The load reads a value each time that it needs it. The `apply` of the panel, which is called
//!    after the value has changed, does everything else.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// A slider's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The calls per second that each algorithm is offered, while calls come.
    AlgorithmsCalls,
    /// The quota of each algorithm.
    AlgorithmsQuota,
    /// The burst of the algorithms that have one.
    AlgorithmsBurst,
    /// The release rate of the queue.
    QueueQuota,
    /// The calls of the noisy tenant for each call of a quiet one.
    TenantsNoise,
    /// The greatest number of calls of all tenants in flight.
    TenantsSlots,
    /// The number of calls that the backend works on at once.
    BackendWorkers,
    /// The time of a worker for a call.
    BackendService,
    /// The calls to each backend per second.
    BackendCalls,
    /// The quota of the route that all clients share.
    HttpQuota,
}

/// A slider as the page draws it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Slider {
    #[serde(skip)]
    setting: Setting,
    /// Its name, which begins with that of the panel.
    pub name: &'static str,
    /// Its panel.
    pub panel: &'static str,
    /// Its label on the page.
    pub label: &'static str,
    /// The unit of its value.
    pub unit: &'static str,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// The distance between values on the page.
    pub step: u64,
    /// The value: at first, the most instructive one.
    pub value: u64,
}

macro_rules! sliders {
    ($($setting:ident: $panel:literal $name:literal, $label:literal, $unit:literal,
       $min:literal..=$max:literal by $step:literal, $value:literal;)*) => {
        /// All sliders, each at the index of its setting.
        pub const SLIDERS: &[Slider] = &[$(Slider {
            setting: Setting::$setting,
            name: concat!($panel, ".", $name),
            panel: $panel,
            label: $label,
            unit: $unit,
            min: $min,
            max: $max,
            step: $step,
            value: $value,
        }),*];
    };
}

sliders! {
    AlgorithmsCalls: "algorithms" "calls", "Calls per second", "/s", 0..=400 by 10, 120;
    AlgorithmsQuota: "algorithms" "quota", "Quota", "/s", 10..=200 by 10, 50;
    AlgorithmsBurst: "algorithms" "burst", "Burst", "calls", 1..=50 by 1, 10;
    QueueQuota: "queue" "quota", "Quota", "/s", 1..=200 by 1, 10;
    TenantsNoise: "tenants" "noise", "Noisy tenant sends", "× 15 /s", 1..=40 by 1, 20;
    TenantsSlots: "tenants" "slots", "Slots", "", 3..=32 by 1, 8;
    BackendWorkers: "backend" "workers", "Workers", "", 2..=50 by 1, 10;
    BackendService: "backend" "service_ms", "Service time", "ms", 5..=100 by 5, 20;
    BackendCalls: "backend" "calls", "Calls per second", "/s", 0..=1000 by 50, 700;
    HttpQuota: "http" "quota", "Quota of /api/shared", "/s", 10..=1000 by 10, 200;
}

/// The values of all sliders.
#[derive(Debug)]
pub struct Settings(Vec<AtomicU64>);

impl Settings {
    /// Returns the settings of a fresh start.
    pub fn new() -> Self {
        let values = SLIDERS.iter().map(|slider| AtomicU64::new(slider.value));
        Self(values.collect())
    }

    /// Returns a value.
    pub fn get(&self, setting: Setting) -> u64 {
        // Each value is independent of the others and of all else.
        self.0[setting as usize].load(Ordering::Relaxed)
    }

    /// Returns the setting with this name, and `value` rounded to a whole number.
    pub fn check(name: &str, value: f64) -> Result<(Setting, u64), SetError> {
        let slider = SLIDERS.iter().find(|slider| slider.name == name);
        let slider = slider.ok_or(SetError::Unknown)?;
        let (min, max) = (slider.min, slider.max);
        if !(min as f64..=max as f64).contains(&value) {
            return Err(SetError::OutOfBounds { min, max });
        }
        Ok((slider.setting, value.round() as u64))
    }

    /// Sets a value within the bounds.
    pub fn put(&self, setting: Setting, value: u64) {
        self.0[setting as usize].store(value, Ordering::Relaxed);
    }

    /// Returns all sliders with their present values.
    pub fn sliders(&self) -> Vec<Slider> {
        let now = |slider: &Slider| Slider {
            value: self.get(slider.setting),
            ..*slider
        };
        SLIDERS.iter().map(now).collect()
    }

    /// Returns all values by name.
    pub fn values(&self) -> BTreeMap<&'static str, u64> {
        let value = |slider: &Slider| (slider.name, self.get(slider.setting));
        SLIDERS.iter().map(value).collect()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a value was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// There is no slider of that name.
    Unknown,
    /// The value is not within the bounds of the slider.
    OutOfBounds {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no slider has this name"),
            Self::OutOfBounds { min, max } => {
                write!(f, "the value must be a number from {min} to {max}")
            }
        }
    }
}

impl std::error::Error for SetError {}
