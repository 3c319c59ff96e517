//! Limits for object stores: [`ThrottledConnector`] for stores that are used over HTTP.

mod connector;
mod error;
mod limits;
mod service;

pub use self::connector::ThrottledConnector;
pub use self::error::{WaitTooLong, cause};
pub use self::limits::Hold;
