//! Replaces the token where the crate is built without tokio: there are no tokens.

/// Has no values.
pub(super) enum CancellationToken {}

impl CancellationToken {
    pub(super) fn is_cancelled(&self) -> bool {
        match *self {}
    }

    pub(super) async fn cancelled(&self) {
        match *self {}
    }
}
