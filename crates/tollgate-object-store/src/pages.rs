//! Streams that are read in pages, each under a permit of its own.
//!
//! 1. A page is read to its end into a buffer, and its permit returned, before its first item is
//!    yielded.
//! 2. The paths to delete are read without a permit: they often come from a list of the same store.
//!    A page waits for its first path, and then for its permit. Meanwhile the paths are polled and
//!    gathered: a list of the same store may be in the queue of the throttle before the page, and has to
//!    take its permit for the page to get one. A full page polls them no more.
//! 3. After a refusal the stream yields its error, and that of a path read with the page, and ends.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, Result};
use tollgate::Throttle;

use crate::limits::Limits;
use crate::store::Throttled;

/// How many items a page has: as many as a page of S3.
const PAGE: usize = 1_000;

/// Lists in pages what `open` returns.
pub(crate) fn list<T>(
    limits: Limits<T>,
    open: impl FnOnce() -> BoxStream<'static, Result<ObjectMeta>> + Send + 'static,
) -> BoxStream<'static, Result<ObjectMeta>>
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    // It is opened when it is first polled, under the permit of the first page: some stores list all
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
            let mut admission = pin!(limits.admit_call(0));
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
                // The failure among the paths follows, or nobody would see it.
                Err(error) => {
                    let refused = [Err(error)].into_iter().chain(failed);
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
