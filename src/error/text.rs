//! What an error says, to a person and in `Debug`.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::{AcquireError, Cause, ErrorKind};

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (after, cause) = (self.retry_after(), self.cause());
        f.write_str(match self.kind() {
            ErrorKind::Closed => "the throttle is closed",
            ErrorKind::Cancelled if cause == Cause::BeforeWaiting => "cancelled before waiting",
            ErrorKind::Cancelled => "cancelled while waiting",
            ErrorKind::TimedOut if cause == Cause::Gate => {
                "the gate is blocked for longer than the timeout"
            }
            ErrorKind::TimedOut if after.is_some() => "the wait would be longer than the timeout",
            ErrorKind::TimedOut => "timed out while waiting",
            ErrorKind::QueueFull => "too many callers are waiting already",
            ErrorKind::TooManyKeys => "too many keys are in use",
            ErrorKind::NoPermits => "no permits are available",
            ErrorKind::RateLimited if cause == Cause::Gate => "the gate is blocked",
            ErrorKind::RateLimited if cause == Cause::Paused => "the limiter is paused",
            ErrorKind::RateLimited => "over the rate",
            ErrorKind::ExceedsCapacity => "the call exceeds the capacity",
            ErrorKind::Store => "the store failed",
        })?;
        match (self.kind(), after) {
            (_, None) => {}
            // A gate that is blocked without end can still be opened, and that a pause never ends
            // is no matter of the rate.
            (_, Some(Duration::MAX)) if matches!(cause, Cause::Gate | Cause::Paused) => {}
            (ErrorKind::TimedOut, Some(Duration::MAX)) => f.write_str(": it would never end")?,
            (ErrorKind::TimedOut, Some(after)) => write!(f, ": {after:?}")?,
            (_, Some(Duration::MAX)) => f.write_str(", and waiting does not help")?,
            (_, Some(after)) => write!(f, ", try again in {after:?}")?,
        }
        if let Some(capacity) = self.capacity() {
            write!(f, " of {capacity}")?;
        }
        if let Some(source) = self.source() {
            write!(f, ": {source}")?;
        }
        match self.part() {
            Some(part) => write!(f, " (part {part})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("AcquireError");
        debug.field("kind", &self.kind());
        if let Some(after) = self.retry_after() {
            debug.field("retry_after", &after);
        }
        if let Some(capacity) = self.capacity() {
            debug.field("capacity", &capacity);
        }
        if let Some(part) = self.part() {
            debug.field("part", &part);
        }
        if let Some(source) = self.source() {
            debug.field("source", &source);
        }
        debug.finish()
    }
}
