//! What the combinators need to know of a future's output.

use crate::error::AcquireError;

/// The output of a future that a combinator can be added to: a `Result`, or plainly `()`.
///
/// It is only met in the bounds of [`Timeout`](crate::Timeout) and of `CancelOn`; there is no need
/// to name it.
///
/// With a combinator it is a `Result` in either case, since the combinator may end the wait.
/// Sealed: it is implemented here alone.
pub trait Outcome: sealed::Sealed {
    /// What there is when all went well.
    type Ok;

    /// As a result.
    #[doc(hidden)]
    fn into_result(self) -> Result<Self::Ok, AcquireError>;
}

impl<T> Outcome for Result<T, AcquireError> {
    type Ok = T;

    #[inline]
    fn into_result(self) -> Self {
        self
    }
}

impl Outcome for () {
    type Ok = ();

    #[inline]
    fn into_result(self) -> Result<(), AcquireError> {
        Ok(())
    }
}

mod sealed {
    use crate::error::AcquireError;

    pub trait Sealed {}

    impl<T> Sealed for Result<T, AcquireError> {}
    impl Sealed for () {}
}
