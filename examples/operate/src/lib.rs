//! All limits of a program, read from a file.

#[cfg(unix)]
pub mod limits;
