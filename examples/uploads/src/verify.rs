//! Reads objects back and compares them with their files, a megabyte at a time.

use std::fs::File;
use std::io::{self, Read};

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use object_store::aws::AmazonS3;
use object_store::path::Path as ObjectPath;
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, explain};
use crate::grace::Grace;
use crate::progress::Progress;
use crate::source::SourceFile;
use crate::upload::{Outcome, Stop};

/// How much of an object is in memory at once, but for the last piece that arrived.
const STEP: usize = 1024 * 1024;

/// What there is under the key of a file.
#[derive(Debug)]
enum Found {
    Equal,
    Different,
    Absent,
    /// It cannot be told.
    Unknown(String),
}

/// Compares the objects with their files, `parallel` at once if the store lets so many in.
///
/// Looks at every object that was uploaded, and at what may have been left behind where an upload
/// failed. An outcome that turns out to be untrue is changed.
///
/// After a cancel it goes on as long as the server answers; a cancel meanwhile ends it.
pub(crate) async fn verify(
    store: &AmazonS3,
    outcomes: &mut [(SourceFile, Outcome)],
    parallel: usize,
    token: &CancellationToken,
    grace: &Grace,
    progress: &Progress,
) {
    let stop = match token.is_cancelled() {
        true => grace.silent(),
        false => token,
    };
    let to_read: Vec<_> = outcomes
        .iter_mut()
        .filter(|(_, outcome)| match outcome {
            Ok(()) => true,
            Err(Stop::Failed(failure)) => failure.reached_server,
            Err(Stop::Cancelled) => false,
        })
        .collect();
    progress.verifying(to_read.len());
    stream::iter(to_read)
        .for_each_concurrent(parallel, async |(file, outcome)| {
            let found = stop.run_until_cancelled(find(store, file, grace)).await;
            correct(file, outcome, found);
            progress.verified();
        })
        .await;
}

/// Changes the outcome to what was found; `None` stands for having been cancelled meanwhile.
fn correct(file: &SourceFile, outcome: &mut Outcome, found: Option<Found>) {
    let key = file.key.as_ref();
    match (&mut *outcome, found) {
        (Ok(()), Some(Found::Equal)) => {}
        (Ok(()), None) => *outcome = Err(Stop::Cancelled),
        (Ok(()), Some(wrong)) => {
            let message = match wrong {
                Found::Unknown(why) => format!("the object cannot be read back: {why}"),
                Found::Absent => "the object is not there, though the upload succeeded".to_owned(),
                _ if file.has_changed() => "the file was changed meanwhile".to_owned(),
                _ => "the object differs from the file".to_owned(),
            };
            *outcome = Err(Stop::Failed(Failure::new(key, message)));
        }
        (Err(Stop::Failed(failure)), Some(Found::Different)) => {
            failure.message += "; an object of that name is there and differs from the file";
        }
        (Err(_), _) => {}
    }
}

async fn find(store: &AmazonS3, file: &SourceFile, grace: &Grace) -> Found {
    match compare(store, &file.key, file, grace).await {
        Ok(true) => Found::Equal,
        Ok(false) => Found::Different,
        Err(object_store::Error::NotFound { .. }) => Found::Absent,
        Err(error) => Found::Unknown(explain(&error)),
    }
}

async fn compare(
    store: &AmazonS3,
    key: &ObjectPath,
    source: &SourceFile,
    grace: &Grace,
) -> object_store::Result<bool> {
    let mut object = store.get(key).await?.into_stream();
    let path = source.path.clone();
    let Ok(mut file) = blocking(move || File::open(path)).await else {
        // Whatever the object is, there is no file that it equals.
        return Ok(false);
    };
    let mut ended = false;
    while !ended {
        let mut bytes = Vec::with_capacity(STEP);
        while bytes.len() < STEP && !ended {
            // The store would wait a little and ask for the rest of a body that was given up, and the
            // silence would end that as if nothing were wrong with this file.
            match grace.answer(false, object.try_next()).await? {
                Some(piece) => bytes.extend_from_slice(&piece),
                None => ended = true,
            }
        }
        let same;
        (file, same) = match blocking(move || go_on(file, &bytes, ended)).await {
            Ok(answer) => answer,
            Err(_) => return Ok(false),
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the file goes on with these bytes, and after the last ones ends.
fn go_on(mut file: File, object: &[u8], ended: bool) -> io::Result<(File, bool)> {
    let mut bytes = Vec::with_capacity(object.len());
    (&file).take(object.len() as u64).read_to_end(&mut bytes)?;
    let same = bytes == object && (!ended || file.read(&mut [0])? == 0);
    Ok((file, same))
}

async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> io::Result<R> + Send + 'static,
) -> io::Result<R> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|panic| Err(io::Error::other(panic)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        file.reopen().unwrap()
    }

    #[test]
    fn a_file_is_followed_to_its_end() {
        let (rest, same) = go_on(file(b"abcd"), b"abc", false).unwrap();
        assert!(same);
        assert!(go_on(rest, b"d", true).unwrap().1);
        assert!(!go_on(file(b"abcd"), b"abc", true).unwrap().1);
        assert!(!go_on(file(b"abc"), b"abcd", true).unwrap().1);
        assert!(!go_on(file(b"abc"), b"abx", false).unwrap().1);
        assert!(go_on(file(b""), b"", true).unwrap().1);
    }
}
