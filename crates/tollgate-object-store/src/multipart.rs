//! Uploads in parts: [`ThrottledUpload`], and stores whose uploads are driven by their callers.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    MultipartId, MultipartUpload, PutMultipartOptions, PutPayload, PutResult, Result, UploadPart,
};
use tollgate::Throttle;

use crate::error::of_store;
use crate::limits::Limits;
use crate::store::Throttled;

/// An upload whose parts enter the throttle of its store.
pub(crate) struct ThrottledUpload<T> {
    upload: Box<dyn MultipartUpload>,
    limits: Limits<T>,
    /// How many parts have been handed to the upload, whose order they fix, and have not been sent: they
    /// wait, were refused or were dropped.
    unsent: Arc<AtomicUsize>,
}

impl<T> ThrottledUpload<T> {
    pub(crate) fn new(upload: Box<dyn MultipartUpload>, limits: Limits<T>) -> Self {
        let unsent = Arc::default();
        Self {
            upload,
            limits,
            unsent,
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<T> MultipartUpload for ThrottledUpload<T>
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let length = data.content_length();
        // The order of these calls is the order of the parts, whichever is admitted first.
        let part = self.upload.put_part(data);
        let (limits, unsent) = (self.limits.clone(), Arc::clone(&self.unsent));
        unsent.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let _admitted = limits.admit_call(length).await?;
            let sent = part.await;
            // The upload knows what failed in it.
            unsent.fetch_sub(1, Ordering::Relaxed);
            sent
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let unsent = self.unsent.load(Ordering::Relaxed);
        if unsent > 0 {
            return Err(of_store(UnsentParts(unsent).into()));
        }
        let _admitted = self.limits.admit_call(0).await?;
        self.upload.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        let _admitted = self.limits.admit_call(0).await?;
        self.upload.abort().await
    }
}

/// An upload cannot be completed, because parts of it are missing.
#[derive(Debug)]
struct UnsentParts(usize);

impl fmt::Display for UnsentParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unsent = self.0;
        write!(
            f,
            "parts of the upload were refused, dropped or not awaited: {unsent}; one that was refused or \
             dropped cannot be sent again, so that only `abort` is left"
        )
    }
}

impl Error for UnsentParts {}

/// Each call takes one permit until it returns.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S, T> MultipartStore for Throttled<S, T>
where
    S: MultipartStore,
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        let _admitted = self.limits.admit_call(0).await?;
        self.inner.create_multipart(path).await
    }

    async fn create_multipart_opts(
        &self,
        path: &Path,
        opts: PutMultipartOptions,
    ) -> Result<MultipartId> {
        let _admitted = self.limits.admit_call(0).await?;
        self.inner.create_multipart_opts(path, opts).await
    }

    async fn put_part(
        &self,
        path: &Path,
        id: &MultipartId,
        part_idx: usize,
        data: PutPayload,
    ) -> Result<PartId> {
        let _admitted = self.limits.admit_call(data.content_length()).await?;
        self.inner.put_part(path, id, part_idx, data).await
    }

    async fn complete_multipart(
        &self,
        path: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        let _admitted = self.limits.admit_call(0).await?;
        self.inner.complete_multipart(path, id, parts).await
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        let _admitted = self.limits.admit_call(0).await?;
        self.inner.abort_multipart(path, id).await
    }
}

impl<T> fmt::Debug for ThrottledUpload<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottledUpload")
            .field("upload", &self.upload)
            .field("limits", &self.limits)
            .finish()
    }
}
