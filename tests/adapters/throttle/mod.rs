//! What is made of one throttle: one that may be missing, one with a cost, one of a type that is
//! erased, one that is lent; and a throttle of one's own in generic code.

mod handles;
pub(crate) mod own;
mod weighted;
