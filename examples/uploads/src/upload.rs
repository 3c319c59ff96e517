//! Runs one task per file, with as many requests at once as the throttle admits.
//!
//! 1. **Every request passes the limits**, which are below the [store](crate::store). This includes
//!    PutObject, UploadPart, and the requests that open, complete and abort a multipart upload. So the
//!    server never has more of them than there are permits.
//! 2. **A request is prepared only in its turn.** To prepare a request is to read its bytes and to sign
//!    it. The number of turns equals the number of permits. So memory holds at most that many parts, and
//!    the age of a signature depends only on the requests before it, however many tasks wait.
//! 3. **A request that holds a permit waits for no turn**, and no multipart upload as a whole holds
//!    a permit or a turn. So a single permit is enough for every upload to end.
//! 4. **Cancelling ends waits, not requests.** A request in flight finishes if the server answers in
//!    [time](crate::grace), and each object is whole or absent. A multipart upload that cannot be
//!    completed any more is aborted.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStoreExt, PutPayload};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tollgate::semaphore::Permit;
use tollgate::{AcquireError, ErrorKind, Semaphore};
use tollgate_object_store::cause;

use crate::arrivals::waiting_since;
use crate::error::{Failure, explain};
use crate::grace::Grace;
use crate::progress::Progress;
use crate::source::SourceFile;
use crate::store::Stores;

/// The state that all tasks share.
#[derive(Debug)]
pub(crate) struct Job {
    /// The clients of the server, behind the limits.
    pub(crate) stores: Stores,
    /// Has one permit for each request that may be prepared.
    pub(crate) turns: Semaphore,
    /// Cancels the waits.
    pub(crate) token: CancellationToken,
    /// Files larger than this many bytes are sent in parts of this size.
    pub(crate) part_bytes: u64,
    /// Shows the progress.
    pub(crate) progress: Arc<Progress>,
}

/// The reason why a file was not uploaded.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// The job was cancelled before the file was done.
    Cancelled,
    /// The upload failed.
    Failed(Failure),
}

/// The outcome for one file: `Ok` once the server has acknowledged the whole object.
pub(crate) type Outcome = Result<(), Stop>;

impl Job {
    /// Uploads every file and returns the outcome of each.
    pub(crate) async fn run(self: Arc<Self>, files: Vec<SourceFile>) -> Vec<(SourceFile, Outcome)> {
        let mut tasks = JoinSet::new();
        for file in files {
            let job = Arc::clone(&self);
            tasks.spawn(async move {
                let outcome = job.upload(&file).await;
                job.progress.ended(&file, &outcome);
                (file, outcome)
            });
        }
        let mut outcomes = tasks.join_all().await;
        outcomes.sort_by(|(a, _), (b, _)| a.key.cmp(&b.key));
        outcomes
    }

    async fn upload(self: &Arc<Self>, file: &SourceFile) -> Outcome {
        if file.len > self.part_bytes {
            self.upload_in_parts(file).await
        } else {
            self.upload_whole(file).await
        }
    }

    async fn upload_whole(&self, file: &SourceFile) -> Outcome {
        let put = |bytes| self.stores.sending.put(&file.key, bytes);
        self.send(file, 0, file.len, &self.token, put).await?;
        self.progress.sent(file.len);
        Ok(())
    }

    /// Reads `len` bytes of a file from `offset` on in its turn, and makes a request with them. A cancelled
    /// token ends the wait for the turn.
    pub(crate) async fn send<F, R>(
        &self,
        file: &SourceFile,
        offset: u64,
        len: u64,
        token: &CancellationToken,
        request: impl FnOnce(PutPayload) -> F,
    ) -> Result<R, Stop>
    where
        F: Future<Output = object_store::Result<R>>,
    {
        let asked = Instant::now();
        let _turn = self.turn(file, token).await?;
        let waited = asked.elapsed();
        let bytes = read(file, offset, len).await?;
        // The time of reading the file does not count as a wait.
        let asked = Instant::now() - waited;
        let sent = waiting_since(asked, request(PutPayload::from(bytes))).await;
        sent.map_err(|error| Stop::store(file, &error))
    }

    /// Makes a request without file content in its turn, unless the job is cancelled before.
    pub(crate) async fn request<R>(
        &self,
        file: &SourceFile,
        request: impl Future<Output = object_store::Result<R>>,
    ) -> Result<R, Stop> {
        let asked = Instant::now();
        let _turn = self.turn(file, &self.token).await?;
        let answer = waiting_since(asked, request).await;
        answer.map_err(|error| Stop::store(file, &error))
    }

    async fn turn(
        &self,
        file: &SourceFile,
        token: &CancellationToken,
    ) -> Result<Permit<&Semaphore>, Stop> {
        let turn = self.turns.acquire().cancel_on(token).await;
        turn.map_err(|error| Stop::refused(file, &error))
    }
}

impl Stop {
    pub(crate) fn store(file: &SourceFile, error: &object_store::Error) -> Stop {
        match cause(error) {
            Some(cause) => Stop::refused(file, cause),
            None => Stop::Failed(Failure::store(file.key.as_ref(), error)),
        }
    }

    /// Converts the error of a request that was not admitted.
    fn refused(file: &SourceFile, error: &AcquireError) -> Stop {
        match error.kind() {
            ErrorKind::Cancelled => Stop::Cancelled,
            _ => Stop::Failed(Failure::new(file.key.as_ref(), error.to_string())),
        }
    }
}

/// Reads `len` bytes of a file from `offset` on, on a thread that may block.
///
/// The length is that of the listing. Bytes added since then are not read, so a file that grows cannot
/// fill the memory. The comparison detects such a change.
pub(crate) async fn read(file: &SourceFile, offset: u64, len: u64) -> Result<Vec<u8>, Stop> {
    let path = file.path.clone();
    let bytes = tokio::task::spawn_blocking(move || read_blocking(path, offset, len))
        .await
        .unwrap_or_else(|panic| Err(io::Error::other(panic)));
    bytes.map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the file became shorter while it was read",
            _ => "cannot read the file",
        };
        Stop::Failed(Failure::local(file.key.as_ref(), what, &error))
    })
}

fn read_blocking(path: PathBuf, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let len = usize::try_from(len).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

// A large file is opened as a multipart upload and sent in parts, each in a request of its own. It is
// then completed or aborted, so that neither an object nor any of its parts stays behind after a failure.

/// The maximum number of parts that S3 accepts.
const MAX_PARTS: u64 = 10_000;

impl Job {
    pub(crate) async fn upload_in_parts(self: &Arc<Self>, file: &SourceFile) -> Outcome {
        let open = self.stores.sending.create_multipart(&file.key);
        let id = self.request(file, open).await?;

        self.progress.begin(file);
        let sent = match self.send_parts(file, &id).await {
            Ok(parts) => self.complete(file, &id, parts).await,
            Err(stop) => Err(stop),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(stop) => Err(self.abort(file, &id, stop).await),
        }
    }

    /// Sends every part, in one task each. The first failure cancels the others. Parts that have
    /// been read finish first, so that none arrives after the upload has been aborted.
    async fn send_parts(
        self: &Arc<Self>,
        file: &SourceFile,
        id: &str,
    ) -> Result<Vec<PartId>, Stop> {
        let part_bytes = self.part_bytes.max(file.len.div_ceil(MAX_PARTS));
        let count = file.len.div_ceil(part_bytes);
        let token = self.token.child_token();
        let mut tasks = JoinSet::new();
        for index in 0..count {
            let job = Arc::clone(self);
            let (file, id, token) = (file.clone(), id.to_owned(), token.clone());
            let offset = index * part_bytes;
            let len = part_bytes.min(file.len - offset);
            tasks.spawn(async move {
                let part = job.send_part(&file, &id, index, offset, len, &token).await;
                if part.is_ok() {
                    job.progress.part(&file, index + 1, count, len);
                } else {
                    token.cancel();
                }
                (index, part)
            });
        }
        let mut parts = Vec::new();
        let mut stop = None;
        for (index, part) in tasks.join_all().await {
            match part {
                Ok(part) => parts.push((index, part)),
                // The first failure is the reason; the cancellations that follow from it are not.
                Err(failed @ Stop::Failed(_)) if !matches!(stop, Some(Stop::Failed(_))) => {
                    stop = Some(failed);
                }
                Err(other) => stop = stop.or(Some(other)),
            }
        }
        match stop {
            Some(stop) => Err(stop),
            None => {
                parts.sort_by_key(|(index, _)| *index);
                Ok(parts.into_iter().map(|(_, part)| part).collect())
            }
        }
    }

    async fn send_part(
        &self,
        file: &SourceFile,
        id: &str,
        index: u64,
        offset: u64,
        len: u64,
        token: &CancellationToken,
    ) -> Result<PartId, Stop> {
        let id = id.to_owned();
        let put = |bytes| {
            let store = &self.stores.sending;
            store.put_part(&file.key, &id, index as usize, bytes)
        };
        self.send(file, offset, len, token, put).await
    }

    async fn complete(&self, file: &SourceFile, id: &str, parts: Vec<PartId>) -> Outcome {
        let id = id.to_owned();
        let store = &self.stores.sending;
        let complete = store.complete_multipart(&file.key, &id, parts);
        self.request(file, complete).await.map(drop)
    }

    /// Tells the server to delete the parts. This request waits for its turn whether or not the job was
    /// cancelled: all other waiters have left by then, and the requests in flight will end. The limits
    /// apply to it like to any other request.
    ///
    /// Returns the reason why the upload stopped, together with the error of this request if it fails.
    async fn abort(&self, file: &SourceFile, id: &str, stop: Stop) -> Stop {
        let (stores, id) = (&self.stores, id.to_owned());
        // The semaphore is never closed, so there is no error.
        let _turn = self.turns.acquire().await;
        let mut aborted = stores.finishing.abort_multipart(&file.key, &id).await;
        // A throttle that admits no requests any more must not leave parts on the server.
        if aborted.as_ref().is_err_and(|error| cause(error).is_some()) {
            aborted = stores.unlimited.abort_multipart(&file.key, &id).await;
        }
        match (aborted, stop) {
            // Not found: the server has already deleted the parts.
            (Ok(()) | Err(object_store::Error::NotFound { .. }), stop) => stop,
            (Err(error), Stop::Cancelled) => {
                let mut stop = Stop::store(file, &error);
                if let Stop::Failed(failure) = &mut stop {
                    failure.message = format!(
                        "cancelled, but the parts could not be removed: {}",
                        failure.message
                    );
                }
                stop
            }
            (Err(error), Stop::Failed(mut failure)) => {
                let why = explain(&error);
                if why != failure.message {
                    failure.message += &format!("; its parts could not be removed either: {why}");
                }
                Stop::Failed(failure)
            }
        }
    }
}

// Reads objects back and compares them with their files, a megabyte at a time.

/// The size of a comparison buffer. Memory holds this much of an object, plus the last piece that arrived.
const STEP: usize = 1024 * 1024;

/// The object found under the key of a file.
#[derive(Debug)]
enum Found {
    Equal,
    Different,
    Absent,
    /// The object could not be compared, for the reason given.
    Unknown(String),
}

/// Compares the objects with their files, `parallel` at once if the limits of the store allow it.
///
/// Checks every object that was uploaded, and every key for which an upload failed and may have left an
/// object behind. Corrects an outcome that turns out to be wrong.
///
/// After a cancel, the comparison continues for as long as the server answers. A cancel during the
/// comparison ends it.
pub(crate) async fn verify(
    store: &AmazonS3,
    outcomes: &mut [(SourceFile, Outcome)],
    parallel: usize,
    token: &CancellationToken,
    grace: &Grace,
    progress: &Progress,
) {
    let stop = if token.is_cancelled() {
        grace.silent()
    } else {
        token
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

/// Corrects the outcome according to the object found; `None` means that the comparison was cancelled.
fn correct(file: &SourceFile, outcome: &mut Outcome, found: Option<Found>) {
    let key = file.key.as_ref();
    match (&mut *outcome, found) {
        (Ok(()), Some(Found::Equal)) => {}
        (Ok(()), None) => *outcome = Err(Stop::Cancelled),
        (Ok(()), Some(wrong)) => {
            let message = match wrong {
                Found::Unknown(why) => format!("the object cannot be read back: {why}"),
                Found::Absent => "the object is missing, although the upload succeeded".to_owned(),
                _ if file.has_changed() => "the file changed during the upload".to_owned(),
                _ => "the object differs from the file".to_owned(),
            };
            *outcome = Err(Stop::Failed(Failure::new(key, message)));
        }
        (Err(Stop::Failed(failure)), Some(Found::Different)) => {
            failure.message += "; an object with that name exists and differs from the file";
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
        // Whatever the object is, there is no file that equals it.
        return Ok(false);
    };
    let mut ended = false;
    while !ended {
        let mut bytes = Vec::with_capacity(STEP);
        while bytes.len() < STEP && !ended {
            // Without this limit, the store would wait briefly and request the rest of an abandoned body, and the
            // silent server would end that request as if nothing were wrong with this file.
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

/// Returns whether the file continues with these bytes and, if they are the last ones, ends after them.
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
