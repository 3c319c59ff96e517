//! The process behind the page, in paused time.

mod common;
mod events;
mod panels;
mod queue;
mod routes;
mod settings;
