//! The panels: each makes its load and says what came of it.

pub(crate) mod algorithms;
pub(crate) mod backend;
pub(crate) mod queue;
pub(crate) mod tenants;
