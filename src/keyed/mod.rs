//! The keys of a [`Keyed`], the bound of its limits, and the policy of a full map.

// First, so that rustdoc lists how a map is made before the methods of the other files.
pub(crate) mod by_key;
mod permits;
mod rates;

mod bulk;
mod gates;
mod key;
mod kind;
mod map;
mod shard;
#[cfg(test)]
mod tests;
mod throttle;
mod when_full;

pub(crate) use self::by_key::Keyed;
pub use self::by_key::{Key, Kind};
pub use self::when_full::WhenFull;
