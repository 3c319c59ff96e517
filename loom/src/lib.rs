//! Model checks of tollgate's protocols under loom; see `tests/`.
