//! What is shared between threads, in one place, so that models can have their own.

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
