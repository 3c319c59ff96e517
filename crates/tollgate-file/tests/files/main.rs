//! Limits in files, as processes, threads, and other users of the files find them.

mod child;
mod contents;
mod permits;
mod rates;
mod throttles;
