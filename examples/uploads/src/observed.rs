//! What the embedded server does besides storing: it counts uploads, delays them, refuses some on
//! demand, and says clearly why it failed.
//!
//! An upload is a PUT: `PutObject` or `UploadPart`. It is counted for as long as the server has it,
//! the delay included. The [server](crate::server) counts every request, writes it down when it
//! arrives, and refuses it if there are too many per second.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CreateMultipartUploadInput, CreateMultipartUploadOutput,
    GetObjectInput, GetObjectOutput, PutObjectInput, PutObjectOutput, StreamingBlob,
    UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;
use tollgate::{RateLimiter, Semaphore};

use crate::arrivals::Arrivals;
use crate::gauge::{Gauge, Slot};

/// How the embedded server treats uploads.
#[derive(Debug)]
pub struct Behaviour {
    /// How long each upload is held back, while it counts as under way.
    pub delay: Duration,
    /// Counts the uploads that the server has.
    pub gauge: Arc<Gauge>,
    /// Counts the requests of any kind that the server has.
    pub requests: Arc<Gauge>,
    /// Each request that changes something is written down here when it arrives.
    pub arrivals: Arc<Arrivals>,
    /// Requests above this rate are refused with `SlowDown`.
    pub slow_down: Option<Arc<RateLimiter>>,
    /// Each upload uses up one permit of it before it goes on, so that a test can hold uploads
    /// where it wants them.
    pub gate: Option<Arc<Semaphore>>,
    /// Uploads of these objects are refused.
    pub refusals: Vec<Refusal>,
}

/// An object that the server does not take.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The key of the object.
    pub key: String,
    /// The number of the part, counted from one; `None` stands for the object as a whole.
    pub part: Option<i32>,
    /// What storing it is made to fail with.
    pub error: io::ErrorKind,
}

impl Default for Behaviour {
    /// A delay of 20 ms, which is long enough for any cap that a machine can keep busy to be
    /// reached, and nothing refused.
    fn default() -> Self {
        Behaviour {
            delay: Duration::from_millis(20),
            gauge: Gauge::new(false),
            requests: Gauge::new(false),
            arrivals: Arrivals::new(),
            slow_down: None,
            gate: None,
            refusals: Vec::new(),
        }
    }
}

/// A store on a file system that is watched.
#[derive(Debug)]
pub(crate) struct Observed {
    files: FileSystem,
    root: PathBuf,
    behaviour: Behaviour,
}

impl Observed {
    pub(crate) fn new(files: FileSystem, root: PathBuf, behaviour: Behaviour) -> Observed {
        Observed {
            files,
            root,
            behaviour,
        }
    }

    /// Counts an upload, holds it back, and refuses it if it is to be refused.
    async fn begin(&self, bucket: &str, key: &str, part: Option<i32>) -> S3Result<Slot> {
        let slot = self.behaviour.gauge.enter();
        tokio::time::sleep(self.behaviour.delay).await;
        if let Some(gate) = &self.behaviour.gate
            && let Ok(permit) = gate.acquire().await
        {
            permit.forget();
        }
        self.find_bucket(bucket)?;
        match self
            .behaviour
            .refusals
            .iter()
            .find(|refusal| refusal.key == key && refusal.part == part)
        {
            Some(refusal) => Err(explain(S3Error::internal_error(io::Error::from(
                refusal.error,
            )))),
            None => Ok(slot),
        }
    }

    /// A bucket is a directory. The store itself would make a missing one.
    fn find_bucket(&self, bucket: &str) -> S3Result<()> {
        if self.root.join(bucket).is_dir() {
            Ok(())
        } else {
            Err(s3_error!(
                NoSuchBucket,
                "there is no bucket named {}",
                bucket
            ))
        }
    }
}

/// Reads the body of an upload that is refused: a server that closes a connection on which the client
/// still sends can cost it the answer.
async fn read_if_refused(
    begun: S3Result<Slot>,
    body: &mut Option<StreamingBlob>,
) -> S3Result<Slot> {
    if let (Err(_), Some(body)) = (&begun, body) {
        while let Some(Ok(_)) = body.next().await {}
    }
    begun
}

/// The store says `InternalError` to everything and keeps the reason to itself.
fn explain(mut error: S3Error) -> S3Error {
    if *error.code() != S3ErrorCode::InternalError || error.message().is_some() {
        return error;
    }
    let Some(source) = error.source() else {
        return error;
    };
    let message = source.to_string();
    match source.downcast_ref().map(io::Error::kind) {
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            error.set_code(S3ErrorCode::Custom("InsufficientStorage".into()));
            error.set_status_code(507.try_into().expect("a status between 100 and 999"));
        }
        // The store keeps notes on an object in a file that has the key, encoded, in its name.
        Some(io::ErrorKind::InvalidFilename) => error.set_code(S3ErrorCode::KeyTooLongError),
        _ => {}
    }
    error.set_message(message);
    error
}

#[async_trait::async_trait]
impl S3 for Observed {
    async fn put_object(
        &self,
        mut request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let begun = self
            .begin(&request.input.bucket, &request.input.key, None)
            .await;
        let _slot = read_if_refused(begun, &mut request.input.body).await?;
        self.files.put_object(request).await.map_err(explain)
    }

    async fn upload_part(
        &self,
        mut request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let input = &mut request.input;
        let begun = self
            .begin(&input.bucket, &input.key, Some(input.part_number))
            .await;
        let _slot = read_if_refused(begun, &mut input.body).await?;
        self.files.upload_part(request).await.map_err(explain)
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        self.find_bucket(&request.input.bucket)?;
        self.files
            .create_multipart_upload(request)
            .await
            .map_err(explain)
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        self.files
            .complete_multipart_upload(request)
            .await
            .map_err(explain)
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.files
            .abort_multipart_upload(request)
            .await
            .map_err(explain)
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        self.find_bucket(&request.input.bucket)?;
        self.files.get_object(request).await.map_err(explain)
    }
}
