//! Finds out whether a file is on a file system of the network.
//!
//! There a lock may be only of one machine, or none at all, and another machine may read an old state. Linux tells
//! the type of each mounted file system. Other systems are not asked.

use std::path::Path;

use crate::error::{FileError, FileErrorKind};

/// The types of file systems that machines share, as Linux names them.
const SHARED: [&str; 17] = [
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "coda",
    "fuse.ceph",
    "fuse.glusterfs",
    "fuse.s3fs",
    "fuse.sshfs",
    "gfs2",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "smb3",
];

/// Fails if the folder of a path is on a file system of the network, where the system tells.
pub(crate) fn check(path: &Path, folder: &Path) -> Result<(), FileError> {
    if device(folder).is_some_and(is_shared) {
        return Err(FileError::new(path, FileErrorKind::Network));
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn device(folder: &Path) -> Option<u64> {
    use std::os::linux::fs::MetadataExt;
    folder.metadata().ok().map(|folder| folder.st_dev())
}

#[cfg(not(target_os = "linux"))]
fn device(_: &Path) -> Option<u64> {
    None
}

fn is_shared(device: u64) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|mount| is_shared_mount(mount, device))
}

/// Returns whether a line of `mountinfo` describes this device and a type that machines share. Source: proc(5).
fn is_shared_mount(mount: &str, device: u64) -> bool {
    let major = device >> 8 & 0xfff | device >> 32 & !0xfff;
    let minor = device & 0xff | device >> 12 & 0xffff_ff00;
    let is_of = mount.split(' ').nth(2) == Some(&format!("{major}:{minor}"));
    let kind = mount.split_once(" - ").map(|(_, rest)| rest);
    let kind = kind.and_then(|rest| rest.split(' ').next());
    is_of && kind.is_some_and(|kind| SHARED.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_shared_mount_of_a_network_file_system_is_true_for_its_device_alone() {
        let mount =
            |kind| format!("52 29 0:47 / /home rw,relatime shared:1 - {kind} server:/home rw");
        for kind in SHARED {
            assert!(is_shared_mount(&mount(kind), 47), "{kind}");
            assert!(!is_shared_mount(&mount(kind), 48), "{kind}");
        }
        for kind in [
            "ext4", "tmpfs", "overlay", "btrfs", "xfs", "zfs", "virtiofs",
        ] {
            assert!(!is_shared_mount(&mount(kind), 47), "{kind}");
        }
        let large = "52 29 4660:74565 / /home rw - nfs4 server:/home rw";
        assert!(is_shared_mount(large, 0x1000_1232_3445));
    }

    #[test]
    fn check_of_a_local_folder_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(check(folder.path(), folder.path()), Ok(()));
    }
}
