//! What can be said of each algorithm in a few lines: its promise, shown where it is tight, its
//! text, and how it goes on when another process takes over.
//!
//! Against a model each is tested in `rate_model` and `sliding`.

mod across;
mod changed;
mod promises;
mod text;
