//! Reads, writes and frames of bodies whose limit has enough.

use tollgate_bench::bytes::{self, SMALL};

use crate::{Counted, counted};

const READ: &str = "bytes: read 1 KiB";
const WRITE: &str = "bytes: write 1 KiB";
const FRAME: &str = "bytes: frame of a body";

pub(crate) const COUNTED: &[Counted] = &[
    counted(READ, "Throttled", || {
        Box::new(bytes::reads(SMALL, bytes::never_binding))
    }),
    counted(READ, "Throttled by key", || {
        Box::new(bytes::reads(SMALL, bytes::never_binding_key))
    }),
    counted(READ, "bare", || Box::new(bytes::reads(SMALL, bytes::bare))),
    counted(WRITE, "Throttled", || {
        Box::new(bytes::writes(SMALL, bytes::never_binding))
    }),
    counted(WRITE, "bare", || {
        Box::new(bytes::writes(SMALL, bytes::bare))
    }),
    counted(FRAME, "Throttled", || {
        Box::new(bytes::frames(bytes::never_binding))
    }),
    counted(FRAME, "bare", || Box::new(bytes::frames(bytes::bare))),
];
