//! Opening and locking a file that other processes lock, too.
//!
//! 1. A file is opened anew for each lock, so that the lock belongs to one open file: threads, two limiters of one
//!    path, and a forked child that inherits descriptors exclude each other as processes do.
//! 2. A file that exists is opened without the right to create it; one that does not is created in a way that
//!    follows no link and fails if it exists. So nothing is created or written where a link leads.
//! 3. After the lock, the open file is compared with the path. If they differ, the file was unlinked or replaced
//!    meanwhile, or the path is a link; the attempt begins again with what is there, or fails.
//! 4. A lock is never waited for: no call here blocks the thread.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::error::{FileError, FileErrorKind};

/// A file, and whether this open file has the lock.
pub(crate) enum Attempt {
    /// Unlock it explicitly: closing it leaves the lock with a child process that was forked meanwhile.
    Locked(File),
    /// Another open file has it.
    Busy(File),
}

/// The number of attempts while the file is replaced. Nobody does that so often.
const MOST: u32 = 16;

/// Tries to take the exclusive lock of a file, which is created if it does not exist.
pub(crate) fn lock(path: &Path) -> Result<Attempt, FileError> {
    let failed = FileError::io(path);
    for _ in 0..MOST {
        let Some(file) = open(path).map_err(&failed)? else {
            // The path is a link that leads nowhere, or was created just now.
            check_kind(path)?;
            continue;
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Attempt::Busy(file)),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        match is_at(&file, path).map_err(&failed) {
            Ok(true) => return Ok(Attempt::Locked(file)),
            Ok(false) => _ = file.unlock(),
            Err(error) => {
                let _ = file.unlock();
                return Err(error);
            }
        }
        check_kind(path)?;
    }
    Err(FileError::new(path, FileErrorKind::Busy))
}

/// Opens a file, or creates it. `None` if it does not exist and cannot be created because something is there.
fn open(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    portable::restrict(&mut options);
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        opened => return opened.map(Some),
    }
    match options.create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
        created => created.map(Some),
    }
}

/// Returns whether an open file is a regular one and still the one at the path. A link at the path is another
/// file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    match path.symlink_metadata() {
        Ok(there) => Ok(opened.is_file() && portable::is_same(&opened, &there)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Fails if there is something at the path that is not a regular file.
pub(crate) fn check_kind(path: &Path) -> Result<(), FileError> {
    let is_other = |there: Metadata| !there.is_file();
    if path.symlink_metadata().is_ok_and(is_other) {
        return Err(FileError::new(path, FileErrorKind::NotAFile));
    }
    Ok(())
}

#[cfg(unix)]
mod portable {
    use super::*;
    use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};

    /// The processes of one user share a new file, and no others can hold its lock.
    pub(super) fn restrict(options: &mut OpenOptions) {
        options.mode(0o600);
    }

    pub(super) fn create_folder(path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    pub(super) fn is_same(opened: &Metadata, there: &Metadata) -> bool {
        (opened.dev(), opened.ino()) == (there.dev(), there.ino())
    }

    pub(super) fn read(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
        file.read_at(bytes, 0)
    }

    pub(super) fn write(file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write_at(bytes, 0)
    }
}

#[cfg(windows)]
mod portable {
    use super::*;
    use std::os::windows::fs::{FileExt, OpenOptionsExt};

    const FILE_SHARE_READ_AND_WRITE: u32 = 1 | 2;
    const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;

    /// While the file is open, it cannot be deleted or replaced. A link is opened itself, and is no regular file.
    pub(super) fn restrict(options: &mut OpenOptions) {
        options
            .share_mode(FILE_SHARE_READ_AND_WRITE)
            .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    }

    pub(super) fn create_folder(path: &Path) -> io::Result<()> {
        DirBuilder::new().create(path)
    }

    pub(super) fn is_same(_: &Metadata, _: &Metadata) -> bool {
        true
    }

    pub(super) fn read(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
        file.seek_read(bytes, 0)
    }

    pub(super) fn write(file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.seek_write(bytes, 0)
    }
}

/// Creates a folder, for one user where the system knows such rights.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    portable::create_folder(path)
}

/// Reads the beginning of a file in one call, and returns its length.
pub(crate) fn read(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    portable::read(file, bytes)
}

/// Writes a record over the beginning of a file in one call.
pub(crate) fn write(file: &File, record: &[u8]) -> io::Result<()> {
    #[cfg(test)]
    full::check(file)?;
    match portable::write(file, record)? {
        written if written == record.len() => Ok(()),
        _ => Err(ErrorKind::StorageFull.into()),
    }
}

/// A disk that is full: files keep the room that they have, and get no more.
#[cfg(test)]
pub(crate) mod full {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        pub(crate) static IS_FULL: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn check(file: &File) -> io::Result<()> {
        if IS_FULL.get() && file.metadata()?.len() == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}
