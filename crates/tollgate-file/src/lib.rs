#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod acquire;
mod error;
mod limiter;
mod locked;
mod network;
mod semaphore;

pub use self::acquire::Acquire;
pub use self::error::{FileError, FileErrorKind};
pub use self::limiter::{Cost, FileLimiter};
pub use self::semaphore::{FilePermit, FileSemaphore};
