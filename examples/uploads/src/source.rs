//! Lists the files to upload: the files of a directory, or this repository's files and generated ones.
//!
//! Listing opens no file and keeps none open. A file or directory that cannot be listed becomes a
//! [`Failure`], and the others are uploaded. It counts like a file whose upload failed.

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use object_store::path::{Path as ObjectPath, PathPart};

use crate::error::{Error, Failure};

/// A file to upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The key of the object.
    pub key: ObjectPath,
    /// Whether the key is the percent-encoded name of the file instead of the name itself.
    pub is_renamed: bool,
    /// The path of the file.
    pub path: PathBuf,
    /// The length in bytes when the file was listed.
    pub len: u64,
    /// The time of the last change when the file was listed, if the file system reports it.
    pub modified: Option<SystemTime>,
}

impl SourceFile {
    /// Returns whether the length or the modification time differs from the listed one.
    pub fn has_changed(&self) -> bool {
        fs::metadata(&self.path).map_or(true, |now| {
            now.len() != self.len || now.modified().ok() != self.modified
        })
    }
}

/// The result of a listing.
#[derive(Debug, Default)]
pub struct Listing {
    /// The files, sorted by path.
    pub files: Vec<SourceFile>,
    /// The files and directories that were found but cannot be uploaded.
    pub failures: Vec<Failure>,
    /// The number of skipped entries: links to directories, sockets, pipes and devices.
    pub skipped: usize,
}

/// Directories of this repository that do not contain its own files.
const NOT_OURS: [&str; 2] = [".git", "target"];

/// Lists every file below `directory`.
///
/// A link to a file counts as that file. A link to a directory is skipped, so that no walk is endless.
///
/// # Errors
///
/// If `directory` itself cannot be read.
pub fn directory(directory: &Path) -> Result<Listing, Error> {
    let mut listing = Listing::default();
    walk(directory, "", &[], &mut listing)?;
    Ok(listing)
}

/// Lists this repository's own files, and generates 200 more in `scratch`.
///
/// # Errors
///
/// If the repository cannot be read, or the files cannot be written.
pub fn demonstration(scratch: &Path) -> Result<Listing, Error> {
    write(scratch).map_err(|source| Error::Generate { source })?;
    let mut listing = Listing::default();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    walk(&repository, "repository/", &NOT_OURS, &mut listing)?;
    walk(scratch, "generated/", &[], &mut listing)?;
    Ok(listing)
}

/// Adds the files below `root` to `listing`, with keys that begin with `prefix`.
fn walk(root: &Path, prefix: &str, leave_out: &[&str], listing: &mut Listing) -> Result<(), Error> {
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = match entries(&directory) {
            Ok(entries) => entries,
            Err(source) if directory == root => {
                return Err(Error::Directory {
                    path: directory,
                    source,
                });
            }
            Err(error) => {
                let key = key_text(root, prefix, &directory);
                listing
                    .failures
                    .push(Failure::local(key, "cannot read the directory", &error));
                continue;
            }
        };
        for path in entries {
            let is_link = path.is_symlink();
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => {
                    add_file(root, prefix, path, &metadata, listing);
                }
                Ok(metadata) if metadata.is_dir() && !is_link => {
                    let name = path.file_name().unwrap_or_default();
                    if !leave_out.iter().any(|left_out| name == *left_out) {
                        directories.push(path);
                    }
                }
                Ok(_) => listing.skipped += 1,
                Err(error) => {
                    let key = key_text(root, prefix, &path);
                    listing
                        .failures
                        .push(Failure::local(key, "cannot read the file", &error));
                }
            }
        }
    }
    // Among files with the same key, the one whose name equals the key sorts first.
    listing
        .files
        .sort_by_cached_key(|file| (file.key.clone(), file.is_renamed, file.path.clone()));
    let Listing {
        files, failures, ..
    } = listing;
    files.dedup_by(|file, first| {
        let is_taken = file.key == first.key;
        if is_taken {
            let key = key_text(root, prefix, &file.path);
            failures.push(Failure::new(
                key,
                "another file already has the key of this name",
            ));
        }
        is_taken
    });
    Ok(())
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect()
}

fn add_file(root: &Path, prefix: &str, path: PathBuf, metadata: &Metadata, listing: &mut Listing) {
    let text = key_text(root, prefix, &path);
    if path.to_str().is_none() {
        let message = "the name is not UTF-8, which the key of an object must be";
        listing.failures.push(Failure::new(text, message));
        return;
    }
    let key = key(&text);
    listing.files.push(SourceFile {
        is_renamed: key.as_ref() != text,
        key,
        path,
        len: metadata.len(),
        modified: metadata.modified().ok(),
    });
}

/// Returns the object key for a file of this name. A segment stays as it is, so that the object has the
/// name of its file. A key cannot have control characters, so a segment that contains one is
/// percent-encoded as a whole, the way object_store does it.
fn key(name: &str) -> ObjectPath {
    let part = |segment| PathPart::parse(segment).unwrap_or_else(|_| PathPart::from(segment));
    name.split('/').map(part).collect()
}

/// Returns the name of the file at `path` below `root`, with the prefix of its key.
fn key_text(root: &Path, prefix: &str, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = below
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    format!("{prefix}{}", parts.join("/"))
}

// Generates two hundred files to upload: an empty one, three of 64 MiB and small ones of many sizes.
//
// The content is pseudo-random and the same on every run.

/// The number of generated files.
pub const FILES: usize = 200;
/// The number of large files.
pub const LARGE: usize = 3;
/// The length of a large file in bytes.
pub const LARGE_BYTES: u64 = 64 * 1024 * 1024;

/// Writes the files into `directory`, which is created if necessary.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for index in 0..FILES {
        let mut random = SplitMix64(index as u64);
        let (name, len) = match index {
            0 => ("empty".to_owned(), 0),
            1..=LARGE => (format!("large-{index}"), LARGE_BYTES),
            _ => (format!("small-{index:03}"), 1 + random.next() % 65_536),
        };
        let mut file = BufWriter::new(File::create(directory.join(name))?);
        for _ in 0..len / 8 {
            file.write_all(&random.next().to_le_bytes())?;
        }
        // At most seven bytes are left over.
        file.write_all(&random.next().to_le_bytes()[..(len % 8) as usize])?;
        file.flush()?;
    }
    Ok(())
}

/// The generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(listing: &Listing) -> Vec<&str> {
        listing.files.iter().map(|file| file.key.as_ref()).collect()
    }

    #[test]
    fn lists_files_at_every_depth_in_order() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("b/c")).unwrap();
        fs::create_dir(root.path().join("empty")).unwrap();
        for name in ["b/c/2", "b/1", "a~#%.txt", ".hidden"] {
            fs::write(root.path().join(name), name).unwrap();
        }
        let listing = directory(root.path()).unwrap();
        assert_eq!(keys(&listing), [".hidden", "a~#%.txt", "b/1", "b/c/2"]);
        assert_eq!(listing.files[3].len, 5);
        assert_eq!((listing.failures.len(), listing.skipped), (0, 0));
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        assert!(directory(&root.path().join("nothing")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_to_files_only_and_dangling_ones_fail() {
        use std::os::unix::fs::symlink;

        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "content").unwrap();
        symlink("file", root.path().join("link")).unwrap();
        symlink(".", root.path().join("loop")).unwrap();
        symlink("nowhere", root.path().join("dangling")).unwrap();
        let listing = directory(root.path()).unwrap();
        assert_eq!(keys(&listing), ["file", "link"]);
        assert_eq!(listing.skipped, 1);
        assert_eq!(listing.failures.len(), 1);
        assert_eq!(listing.failures[0].key, "dangling");
    }

    #[cfg(unix)]
    #[test]
    fn directory_with_name_that_is_not_utf_8_fails_that_file() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;

        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(OsStr::from_bytes(b"\xff")), "").unwrap();
        let listing = directory(root.path()).unwrap();
        assert_eq!(keys(&listing), [""; 0]);
        assert_eq!(listing.failures.len(), 1);
    }

    #[test]
    fn key_of_name_with_control_characters_encodes_only_their_segments() {
        assert_eq!(key("a~b/tab\there%/c~d").as_ref(), "a~b/tab%09here%25/c~d");
        assert_eq!(key("\n\r\u{0}\u{7f}").as_ref(), "%0A%0D%00%7F");
        for name in ["a~#%.txt", "a%0Ab", ".hidden", "ünïcödé", "with space"] {
            assert_eq!(key(name).as_ref(), name);
        }
    }

    #[cfg(unix)]
    #[test]
    fn directory_with_two_names_of_one_key_fails_the_encoded_one() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a\nb", "a%0Ab", "c\nd"] {
            fs::write(root.path().join(name), name).unwrap();
        }
        let listing = directory(root.path()).unwrap();
        assert_eq!(keys(&listing), ["a%0Ab", "c%0Ad"]);
        assert_eq!(listing.files[0].path, root.path().join("a%0Ab"));
        assert_eq!(listing.failures.len(), 1);
        assert_eq!(listing.failures[0].key, "a\nb");
    }

    #[test]
    fn repository_is_listed_without_what_is_built() {
        let mut listing = Listing::default();
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        walk(&repository, "", &NOT_OURS, &mut listing).unwrap();
        let keys = keys(&listing);
        assert!(keys.contains(&"examples/uploads/src/source.rs"));
        assert!(!keys.iter().any(|key| key.starts_with("target/")));
        assert!(!keys.iter().any(|key| key.starts_with(".git/")));
    }

    /// The numbers come from the generator's reference implementation, seeded with 1234567.
    #[test]
    fn generator_gives_the_published_numbers() {
        let mut random = SplitMix64(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }
}
