//! Files that are no state of a limit, or cannot be used.

use std::fs;
use std::io;
use std::path::Path;

use tollgate::Quota;
use tollgate_file::{FileErrorKind, FileLimiter, FileSemaphore};

const QUOTA: Quota = Quota::per_second(5).burst(5);

fn kind(path: &Path) -> Option<FileErrorKind> {
    let opened = FileLimiter::open(path, QUOTA);
    opened.err().map(|error| {
        assert!(error.to_string().contains(&path.display().to_string()));
        assert_eq!(error.path(), path);
        error.kind()
    })
}

#[test]
fn open_of_a_file_of_another_program_or_version_is_an_error_and_leaves_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rate");
    FileLimiter::open(&path, QUOTA)
        .unwrap()
        .try_acquire()
        .unwrap();
    let state = fs::read(&path).unwrap();
    let mut later = state.clone();
    later[4] += 1;
    let mut torn = state.clone();
    torn[100] ^= 1;
    let garbage: [&[u8]; 5] = [
        b"x",
        &[1; 160],
        &torn,
        &state[..159],
        &[&state[..], &[0]].concat(),
    ];
    for bytes in garbage {
        fs::write(&path, bytes).unwrap();
        assert_eq!(kind(&path), Some(FileErrorKind::Garbage));
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    fs::write(&path, &later).unwrap();
    let is_version = matches!(kind(&path), Some(FileErrorKind::State(_)));
    assert!(is_version);
    assert_eq!(fs::read(&path).unwrap(), later);
    fs::write(&path, &state).unwrap();
    assert_eq!(kind(&path), None);
}

#[test]
fn try_acquire_after_the_file_was_overwritten_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rate");
    let limiter = FileLimiter::open(&path, QUOTA).unwrap();
    fs::write(&path, "bread, milk").unwrap();
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.kind(), tollgate::ErrorKind::Store);
    assert_eq!(fs::read(&path).unwrap(), b"bread, milk");
}

#[cfg(unix)]
#[test]
fn open_of_a_link_is_an_error_and_creates_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let [link, target] = ["link", "target"].map(|name| folder.path().join(name));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert_eq!(kind(&link), Some(FileErrorKind::NotAFile));
    assert!(!target.exists());
    fs::write(&target, "").unwrap();
    assert_eq!(kind(&link), Some(FileErrorKind::NotAFile));
    assert_eq!(fs::read(&target).unwrap(), b"");
    let error = FileSemaphore::open(&link, 1).unwrap_err();
    assert_eq!(error.kind(), FileErrorKind::NotAFile);

    // The file becomes a link while it is in use.
    let limiter = FileLimiter::open(&target, QUOTA).unwrap();
    let moved = folder.path().join("moved");
    fs::rename(&target, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &target).unwrap();
    let before = fs::read(&moved).unwrap();
    assert!(limiter.try_acquire().is_err());
    assert_eq!(fs::read(&moved).unwrap(), before);
}

#[test]
fn open_of_a_folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(kind(folder.path()), Some(FileErrorKind::NotAFile));
    let missing = folder.path().join("missing").join("rate");
    let not_found = FileErrorKind::Io(io::ErrorKind::NotFound);
    assert_eq!(kind(&missing), Some(not_found));
    assert!(!missing.parent().unwrap().exists());
}

#[test]
fn open_of_a_semaphore_whose_files_are_of_another_program_is_an_error_and_leaves_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("permit-1");
    for bytes in [&b"bread, milk"[..], &[1; 24], &[0; 25]] {
        fs::write(&path, bytes).unwrap();
        let error = FileSemaphore::open(folder.path(), 2).unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (FileErrorKind::Garbage, &*path)
        );
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = FileSemaphore::open(&file, 2).unwrap_err();
    assert_eq!(error.kind(), FileErrorKind::NotAFile);
    // Of one permit, this is not a file.
    drop(
        FileSemaphore::open(folder.path(), 1)
            .unwrap()
            .try_acquire()
            .unwrap(),
    );
}

#[test]
fn acquire_after_the_file_of_a_permit_is_unlinked_or_replaced_takes_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let semaphore = FileSemaphore::open(folder.path(), 1).unwrap();
    let path = folder.path().join("permit-0");
    let first = semaphore.try_acquire().unwrap();
    fs::remove_file(&path).unwrap();
    // One more for each file.
    let second = semaphore.try_acquire().unwrap();
    assert!(semaphore.try_acquire().is_err());
    fs::remove_file(folder.path().join("waiters")).unwrap();
    drop((first, second));
    drop(semaphore.try_acquire().unwrap());
    // What a disk without power may leave.
    for bytes in [&[][..], &[0; 24]] {
        fs::write(&path, bytes).unwrap();
        drop(semaphore.try_acquire().unwrap());
    }
}

/// A file of another user, without the right to write it. The administrator has all rights, and so leaves them
/// first.
#[cfg(unix)]
#[test]
fn open_without_rights_is_an_error() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use crate::child::Process;

    let folder = tempfile::tempdir().unwrap();
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(folder.path(), 0o755);
    let [path, missing, program] =
        ["rate", "missing", "program"].map(|name| folder.path().join(name));
    fs::write(&path, "").unwrap();
    set_mode(&path, 0o444);
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    set_mode(&program, 0o755);
    let is_administrator = fs::metadata(&path).unwrap().uid() == 0;
    let opened = |path: &Path| {
        let mut program = Command::new(&program);
        if is_administrator {
            program.uid(65_534);
        }
        let mut process = Process::start_program(program, "open", &[path]);
        let line = process.line();
        process.end();
        line
    };
    let denied = "Some(Io(PermissionDenied))";
    assert_eq!(opened(&path), denied);
    assert_eq!(fs::read(&path).unwrap(), b"");
    set_mode(folder.path(), 0o555);
    assert_eq!(opened(&missing), denied);
    assert!(!missing.exists());
    set_mode(folder.path(), 0o755);
}
