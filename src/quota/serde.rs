//! A quota is serialized as its text, in every format, so that a configuration is readable.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use super::Quota;

/// Serializes the quota [as text](Quota#as-text).
impl Serialize for Quota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Deserializes a quota from its [text](Quota#as-text).
impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(ReadQuota)
    }
}

struct ReadQuota;

impl Visitor<'_> for ReadQuota {
    type Value = Quota;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quota such as \"100/s burst 20\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quota, E> {
        // The reader of this message sees a whole configuration, and needs to know which text is
        // meant.
        let parsed = text.parse();
        parsed.map_err(|error| E::custom(format_args!("{text:?} is no quota: {error}")))
    }
}
