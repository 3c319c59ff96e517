//! Limits for object stores.
