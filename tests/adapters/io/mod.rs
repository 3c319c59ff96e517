//! Readers and writers at a limited bandwidth.
