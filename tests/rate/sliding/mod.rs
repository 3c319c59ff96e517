//! What the sliding window and the sliding log promise beyond what every algorithm does.

mod carried;
mod debts;
mod edges;
mod threads;
