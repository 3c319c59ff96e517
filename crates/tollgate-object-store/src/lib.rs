#![doc = include_str!("../README.md")]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod connector;
mod data;
mod error;
mod limits;
mod pages;
mod store;

pub use self::connector::ThrottledConnector;
pub use self::error::{LimitKind, WaitTooLong, cause, wait_too_long};
pub use self::limits::Hold;
pub use self::store::Throttled;
