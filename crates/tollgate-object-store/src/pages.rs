//! Reads streams in pages, each under a permit of its own.
//!
//! 1. A page is read to its end into a buffer, and its permit returned, before its first item is
//!    yielded.
//! 2. The paths to delete are read without a permit: they often come from a list of the same store.
//!    A page waits for its first path, and then for its permit. Meanwhile the paths are polled and
//!    collected: a list of the same store may precede the page in the queue of the throttle, and must
//!    take its permit before the page can get one. A full page no longer polls the paths, because several
//!    lists could yield an unbounded number meanwhile. So if another path's call has begun when the last path
//!    of a page arrives, as with two merged lists, that call may hold the permit that the page waits for, until
//!    the longest wait ends. The error, [`FullPage`], reports this.
//! 3. After a refusal the stream yields its error, and the error of a path read with the page, and ends.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    MultipartId, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutPayload,
    PutResult, Result, UploadPart,
};
use tollgate::Throttle;

use crate::error::{BoxError, of_store, wait_too_long};
use crate::limits::Limits;
use crate::store::Throttled;

/// The number of items of a page, which equals that of S3.
const PAGE: usize = 1_000;

/// Lists the objects of the stream that `open` returns, in pages.
pub(crate) fn list<T>(
    limits: Limits<T>,
    open: impl FnOnce() -> BoxStream<'static, Result<ObjectMeta>> + Send + 'static,
) -> BoxStream<'static, Result<ObjectMeta>>
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    // The stream is opened when it is first polled, under the permit of the first page: some stores list all
    // objects at that time.
    let objects = stream::once(async { open() }).flatten().boxed();
    let pages = stream::unfold(Some(objects), move |objects| {
        let limits = limits.clone();
        async move {
            let mut objects = objects?;
            let _admitted = match limits.admit_call(0).await {
                Ok(admitted) => admitted,
                Err(error) => return Some((vec![Err(error)], None)),
            };
            let page: Vec<_> = objects.by_ref().take(PAGE).collect().await;
            let rest = (page.len() == PAGE).then_some(objects);
            Some((page, rest))
        }
    });
    pages.flat_map(stream::iter).boxed()
}

/// Deletes paths in pages. A failure among them ends its page and is yielded after it.
pub(crate) fn delete<S, T>(
    limits: Limits<T>,
    store: Arc<S>,
    paths: BoxStream<'static, Result<Path>>,
) -> BoxStream<'static, Result<Path>>
where
    S: ObjectStore,
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    let pages = stream::unfold(Some(paths.fuse()), move |paths| {
        let (limits, store) = (limits.clone(), Arc::clone(&store));
        async move {
            let mut paths = paths?;
            let first = match paths.next().await? {
                Ok(path) => path,
                failed => return Some((vec![failed], Some(paths))),
            };
            let (mut page, mut failed) = (vec![Ok(first)], None);
            let mut admission = pin!(limits.admit(0));
            let admitted = poll_fn(|context| {
                while page.len() < PAGE
                    && failed.is_none()
                    && let Poll::Ready(Some(path)) = paths.poll_next_unpin(context)
                {
                    match path {
                        Ok(_) => page.push(path),
                        Err(_) => failed = Some(path),
                    }
                }
                admission.as_mut().poll(context)
            });
            let _admitted = match admitted.await {
                Ok(admitted) => admitted,
                // The failure among the paths follows; otherwise it would be lost.
                Err(error) => {
                    let refused = [Err(of_page(error, &page))].into_iter().chain(failed);
                    return Some((refused.collect(), None));
                }
            };
            let deleted = store.delete_stream(stream::iter(page).boxed());
            let deleted: Vec<_> = deleted.chain(stream::iter(failed)).collect().await;
            Some((deleted, Some(paths)))
        }
    });
    pages.flat_map(stream::iter).boxed()
}

/// Returns the error of a page that was not admitted.
fn of_page(source: BoxError, page: &[Result<Path>]) -> object_store::Error {
    let is_full = page.len() == PAGE && wait_too_long(source.as_ref()).is_some();
    of_store(if is_full {
        FullPage(source).into()
    } else {
        source
    })
}

/// A full page of paths waited for too long, and no more paths were read meanwhile.
#[derive(Debug)]
struct FullPage(BoxError);

impl fmt::Display for FullPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{PAGE} paths could not be deleted: {}; no more paths are read while a full page waits, so a \
             call of this store that yields paths may hold the permit: delete what one list yields at a \
             time, or allow more permits than calls that yield paths",
            self.0
        )
    }
}

impl Error for FullPage {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.as_ref())
    }
}

/// Each call takes one permit until it returns.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S, T> PaginatedListStore for Throttled<S, T>
where
    S: PaginatedListStore,
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    async fn list_paginated(
        &self,
        prefix: Option<&str>,
        opts: PaginatedListOptions,
    ) -> Result<PaginatedListResult> {
        let _admitted = self.limits.admit_call(0).await?;
        self.inner.list_paginated(prefix, opts).await
    }
}

// Limits uploads in parts: [`ThrottledUpload`], and stores whose callers drive the uploads.

/// An upload whose parts enter the throttle of its store.
pub(crate) struct ThrottledUpload<T> {
    upload: Box<dyn MultipartUpload>,
    limits: Limits<T>,
    /// The number of parts that were handed to the upload, which fixes their order, and that have not been sent:
    /// they wait, were refused or were dropped.
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
            // The upload itself tracks its failures.
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

/// The error of an upload that cannot be completed, because some of its parts are missing.
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
