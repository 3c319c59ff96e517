//! Readers, writers and bodies at a limited bandwidth.
