//! The rules that remember: the sliding window and the sliding logs, against the most obvious
//! models of them, by hand, and in real threads with an auditor.

mod agree;
pub(crate) mod any;
pub(crate) mod audit;
mod carried;
mod debts;
mod edges;
pub(crate) mod kept;
pub(crate) mod log;
pub(crate) mod rule;
mod threads;
pub(crate) mod window;
