//! The job: one task for each file, as many requests at once as the throttle lets in.
//!
//! 1. **Every request holds one permit while it runs**: PutObject, UploadPart, and also the ones
//!    that open, complete and abort a multipart upload. So the server never has more of them than
//!    there are permits.
//!    If there are limits per second, it enters [them](crate::rates) under its permit, and is charged
//!    for itself and its bytes, before it goes.
//! 2. **Nobody holds a permit while waiting for another.** A multipart upload as a whole holds
//!    none; so a single permit is enough for everything to end.
//! 3. **Bytes are read only while holding the permit that they are sent under.** So at most as many
//!    parts are in memory as there are permits, however many tasks wait.
//! 4. **Cancelling ends waits, not requests.** A request that is under way finishes, so that each
//!    object is whole or absent; a multipart upload that cannot be completed any more is aborted.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use object_store::aws::AmazonS3;
use object_store::{ObjectStoreExt, PutPayload};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tollgate::{All, Cost, ErrorKind, RateLimiter, Throttle, all};

use crate::arrivals::Arrivals;
use crate::failure::Failure;
use crate::gauge::Gauge;
use crate::progress::Progress;
use crate::rates::Rates;
use crate::source::SourceFile;
use crate::waits::Waits;

/// A throttle that tasks can share.
pub trait SharedThrottle: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static {}

impl<T> SharedThrottle for T where T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static {}

/// What a request enters: the throttle, then the rates.
pub(crate) type Entrance<'a, T> = All<(T, Option<&'a RateLimiter>, Option<Cost<&'a RateLimiter>>)>;

/// Everything that the tasks share.
#[derive(Debug)]
pub struct Job<T> {
    /// What each request has to get past.
    pub throttle: T,
    /// What else it has to get past then.
    pub rates: Rates,
    /// Where the objects go.
    pub store: Arc<AmazonS3>,
    /// Cancels what waits.
    pub token: CancellationToken,
    /// Files larger than this many bytes are sent in parts of this size.
    pub part_bytes: u64,
    /// Counts the uploads under way, as the client sees them.
    pub gauge: Arc<Gauge>,
    /// When the requests begin, as the client sees them.
    pub arrivals: Arc<Arrivals>,
    /// How long the requests waited until they could go.
    pub waits: Waits,
    /// Shows how far it is.
    pub progress: Progress,
}

/// Why a file was not uploaded.
#[derive(Clone, Debug)]
pub enum Stop {
    /// The job was cancelled before the file was done.
    Cancelled,
    /// Something went wrong.
    Failed(Failure),
}

/// What became of a file: `Ok` once the server has acknowledged the whole object.
pub type Outcome = Result<(), Stop>;

impl<T> Job<T>
where
    T: SharedThrottle,
{
    /// Uploads every file, and says of each what became of it.
    pub async fn run(self: Arc<Self>, files: Vec<SourceFile>) -> Vec<(SourceFile, Outcome)> {
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
        let permit = self.enter(file, file.len, &self.token).await?;
        let bytes = read(file, 0, file.len).await?;
        let put = {
            let _slot = self.gauge.enter();
            self.arrivals.record(file.len);
            self.store.put(&file.key, PutPayload::from(bytes)).await
        };
        drop(permit);
        put.map_err(|error| Stop::store(file, &error))?;
        self.progress.sent(file.len);
        Ok(())
    }

    /// Everything that a request with so many bytes of a file has to get past, in this order.
    pub(crate) fn entrance(&self, bytes: u64) -> Entrance<'_, T> {
        all((
            self.throttle.clone(),
            self.rates.requests(),
            self.rates.bytes(bytes),
        ))
    }

    /// Waits until a request with so many bytes may go, or the token is cancelled.
    pub(crate) async fn enter(
        &self,
        file: &SourceFile,
        bytes: u64,
        token: &CancellationToken,
    ) -> Result<T::Permit, Stop> {
        let asked = Instant::now();
        match self.entrance(bytes).enter().cancel_on(token).await {
            // What the rates charged is not to be given back.
            Ok((permit, _, _)) => {
                self.waits.record(asked.elapsed());
                Ok(permit)
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => Err(Stop::Cancelled),
            Err(error) => Err(Stop::Failed(Failure::new(
                file.key.as_ref(),
                error.to_string(),
            ))),
        }
    }
}

impl Stop {
    pub(crate) fn store(file: &SourceFile, error: &object_store::Error) -> Stop {
        Stop::Failed(Failure::store(file.key.as_ref(), error))
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
