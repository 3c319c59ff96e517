//! The form of a state with the feature `serde`, in any format.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use super::{LimiterState, OthersUse, Owed, PauseState, RestoreError, VERSION};
use crate::algorithm::Algorithm;
use crate::algorithm::ledger::Growth;
use crate::quota::Quota;
use crate::time::Tick;

#[derive(serde::Serialize, serde::Deserialize)]
struct Fields {
    version: u16,
    algorithm: Algorithm,
    quota: Quota,
    epoch: i64,
    at: u64,
    generation: u64,
    owed: Owed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pause: Option<PauseState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    others: Option<OthersFields>,
}

/// The use of a server by others, in nanoseconds.
#[derive(serde::Serialize, serde::Deserialize)]
struct OthersFields {
    cost: u64,
    until: u64,
    told: u64,
    told_at: u64,
    passed: Option<u64>,
}

/// With the feature `serde`: as fields with a version. A format that does not describe itself has to be written and read
/// by the same version of this crate.
impl Serialize for LimiterState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let others = self.others.map(|others| {
            let growth = others.growth.unwrap_or_default();
            let passed = u64::try_from(growth.passed.as_nanos()).unwrap_or(u64::MAX);
            OthersFields {
                cost: others.cost,
                until: others.until.as_nanos(),
                told: growth.told,
                told_at: growth.at.as_nanos(),
                passed: others.growth.map(|_| passed),
            }
        });
        let fields = Fields {
            version: VERSION,
            algorithm: self.algorithm,
            quota: self.quota,
            epoch: self.epoch,
            at: self.at,
            generation: self.generation,
            owed: self.owed.clone(),
            pause: self.pause,
            others,
        };
        fields.serialize(serializer)
    }
}

/// Fails for another version, and for values that no limiter has.
impl<'de> Deserialize<'de> for LimiterState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Fields::deserialize(deserializer)?;
        if fields.version != VERSION {
            let found = fields.version;
            return Err(D::Error::custom(RestoreError::Version { found }));
        }
        let others = fields.others.map(|others| OthersUse {
            cost: others.cost,
            until: Tick::from_nanos(others.until),
            growth: others.passed.map(|passed| Growth {
                told: others.told,
                at: Tick::from_nanos(others.told_at),
                passed: Duration::from_nanos(passed),
            }),
        });
        let state = Self {
            algorithm: fields.algorithm,
            quota: fields.quota,
            epoch: fields.epoch,
            at: fields.at,
            generation: fields.generation,
            owed: fields.owed,
            pause: fields.pause,
            others,
        };
        state.validated().map_err(D::Error::custom)
    }
}
