#![doc = include_str!("../README.md")]

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
