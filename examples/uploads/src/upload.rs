//! The job: one task for each file, as many requests at once as the throttle lets in.
//!
//! 1. **Every request passes the limits**, which are below the [store](crate::store): PutObject,
//!    UploadPart, and also the ones that open, complete and abort a multipart upload. So the server
//!    never has more of them than there are permits.
//! 2. **A request is prepared only in its turn**: as many are prepared at once as there are permits. To
//!    prepare one is to read its bytes and to sign it. So at most as many parts are in memory, and a
//!    signature grows only as old as the requests before it take, however many tasks wait.
//! 3. **A request that holds a permit waits for no turn**, and no multipart upload as a whole holds
//!    either; so a single permit is enough for everything to end.
//! 4. **Cancelling ends waits, not requests.** A request that is under way finishes if the server
//!    answers in [time](crate::grace), and each object is whole or absent; a multipart upload that
//!    cannot be completed any more is aborted.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use object_store::{ObjectStoreExt, PutPayload};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tollgate::{AcquireError, ErrorKind, Permit, Semaphore};
use tollgate_object_store::cause;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::source::SourceFile;
use crate::store::Stores;
use crate::waits::waiting_since;

/// Everything that the tasks share.
#[derive(Debug)]
pub(crate) struct Job {
    /// Where the objects go, behind the limits.
    pub(crate) stores: Stores,
    /// A permit for each request that may be prepared.
    pub(crate) turns: Semaphore,
    /// Cancels what waits.
    pub(crate) token: CancellationToken,
    /// Files larger than this many bytes are sent in parts of this size.
    pub(crate) part_bytes: u64,
    /// Shows how far it is.
    pub(crate) progress: Arc<Progress>,
}

/// Why a file was not uploaded.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// The job was cancelled before the file was done.
    Cancelled,
    /// Something went wrong.
    Failed(Failure),
}

/// What became of a file: `Ok` once the server has acknowledged the whole object.
pub(crate) type Outcome = Result<(), Stop>;

impl Job {
    /// Uploads every file, and says of each what became of it.
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

    /// Reads `len` bytes of a file from `offset` on in its turn, and makes a request with them. The wait
    /// for the turn ends when the token is cancelled.
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
        // To read is not to wait.
        let asked = Instant::now() - waited;
        let sent = waiting_since(asked, request(PutPayload::from(bytes))).await;
        sent.map_err(|error| Stop::store(file, &error))
    }

    /// Makes a request without bytes of the file in its turn, unless the job is cancelled before.
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

    /// The request was not let in.
    fn refused(file: &SourceFile, error: &AcquireError) -> Stop {
        match error.kind() {
            ErrorKind::Cancelled => Stop::Cancelled,
            _ => Stop::Failed(Failure::new(file.key.as_ref(), error.to_string())),
        }
    }
}

/// Reads `len` bytes of a file from `offset` on, on a thread that may block.
///
/// The length is the one that was listed. What has been added since is left alone, so that a file
/// that grows cannot fill the memory; comparing will find it.
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
