//! What threads share, in one place, so that models can replace it.

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
