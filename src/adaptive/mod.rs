//! Limits that find themselves: from the latency of calls, or from the refusals of a server.

mod controller;

pub use self::controller::{Controller, SampleWindow, Target};
