//! [`FileError`]: the reason why a file cannot be used, with the name of the file.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tollgate::rate::RestoreError;
use tollgate::{AcquireError, ErrorKind};

/// The reason why a file cannot be used, with its path: the error of `open`, and the
/// [source](Error::source) of an [`AcquireError`] of the kind [`Store`](tollgate::ErrorKind::Store).
///
/// # Examples
///
/// ```
/// use tollgate::Quota;
/// use tollgate_file::{FileErrorKind, FileLimiter};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("notes.txt");
/// std::fs::write(&path, "bread, milk")?;
/// let error = FileLimiter::open(&path, Quota::per_second(5)).unwrap_err();
/// assert_eq!(error.kind(), FileErrorKind::Garbage);
/// assert!(error.to_string().starts_with(&path.display().to_string()));
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    path: PathBuf,
    kind: FileErrorKind,
}

/// The kind of a [`FileError`], as plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// Another process has held the lock of a rate for more than a second, or for all of the attempts of a call
    /// that does not wait; perhaps it was stopped. All callers go on when it resumes or dies.
    Busy,
    /// The file was written by another program.
    Garbage,
    /// The path is not a regular file, or for a semaphore not a folder: for example a symbolic link.
    NotAFile,
    /// The file is on a file system of the network, whose locks and caches are not those of one machine.
    Network,
    /// The file has the state of a limiter with another algorithm or another period, or was written by another
    /// version of the crate.
    State(RestoreError),
    /// The algorithm does not fit the quota, or has no state of a fixed size, as
    /// [`SlidingLog`](tollgate::Algorithm::SlidingLog).
    Algorithm,
    /// The system reports an error, for example that rights are missing, or that the disk is full.
    Io(io::ErrorKind),
}

impl FileError {
    pub(crate) fn new(path: &Path, kind: FileErrorKind) -> Self {
        let path = path.into();
        Self { path, kind }
    }

    /// Returns a function that adds the path to an error of the system.
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        |error| Self::new(path, FileErrorKind::Io(error.kind()))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> FileErrorKind {
        self.kind
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match self.kind {
            FileErrorKind::Busy => f.write_str("another process holds the lock"),
            FileErrorKind::Garbage => f.write_str("the file was written by another program"),
            FileErrorKind::NotAFile => {
                f.write_str("it is a link or another kind of file than is necessary")
            }
            FileErrorKind::Network => f.write_str("it is on a file system of the network"),
            FileErrorKind::State(error) => write!(f, "{error}"),
            FileErrorKind::Algorithm => {
                f.write_str("the algorithm does not fit the quota, or has no state of a fixed size")
            }
            FileErrorKind::Io(kind) => write!(f, "{kind}"),
        }
    }
}

impl Error for FileError {}

type Source = &'static (dyn Error + Send + Sync);

/// The maximum number of failures that a process keeps.
const MOST: usize = 1024;

/// The failures so far, each kept once: an [`AcquireError`] without a destructor cannot own its source.
static KEPT: Mutex<Vec<(FileError, &'static Source)>> = Mutex::new(Vec::new());

/// Creates an error of the kind [`Store`](tollgate::ErrorKind::Store) with this one as its source. A process keeps
/// each of the first 1,024 different errors; a later one has no source.
impl From<FileError> for AcquireError {
    fn from(error: FileError) -> Self {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, source)) = kept.iter().find(|(same, _)| *same == error) {
            return Self::store(source);
        }
        if kept.len() == MOST {
            return Self::new(ErrorKind::Store);
        }
        let source: Source = Box::leak(Box::new(error.clone()));
        let source = Box::leak(Box::new(source));
        kept.push((error, source));
        Self::store(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acquire_error_from_has_it_as_its_source_and_keeps_each_once() {
        let error = FileError::new(
            "a/b".as_ref(),
            FileErrorKind::Io(io::ErrorKind::StorageFull),
        );
        let [first, second] = [error.clone(), error.clone()].map(AcquireError::from);
        assert_eq!(first, second);
        let source = first.source().and_then(|source| source.downcast_ref());
        assert_eq!(source, Some(&error));
        assert_eq!(first.to_string(), "the store failed: a/b: no storage space");
    }
}
