//! A store in memory that asserts, in each of its methods, that the only permit of a cap is held.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartId, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};
use tollgate::Semaphore;

#[derive(Clone, Debug)]
pub(crate) struct Watched<S = Arc<InMemory>> {
    inner: S,
    cap: Arc<Semaphore>,
}

impl Watched {
    pub(crate) fn new(inner: InMemory, cap: Arc<Semaphore>) -> Self {
        let inner = Arc::new(inner);
        Self { inner, cap }
    }
}

impl<S> Watched<S> {
    /// The inner store, to be called while the permit is held.
    fn held(&self) -> &S {
        assert_eq!(self.cap.available_permits(), 0, "the permit is held");
        &self.inner
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Watched {
    async fn put_opts(&self, at: &Path, data: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.held().put_opts(at, data, opts).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.held().put_multipart_opts(at, opts).await?;
        let cap = Arc::clone(&self.cap);
        Ok(Box::new(Watched { inner, cap }))
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.held().get_opts(at, options).await
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.held().get_ranges(at, ranges).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.watch(self.held().delete_stream(paths))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.watch(self.held().list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.watch(self.held().list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.held().list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.held().copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.held().rename_opts(from, to, options).await
    }
}

impl<S: Clone + Send + 'static> Watched<S> {
    /// A stream that is polled while the permit is held.
    fn watch<R: Send + 'static>(&self, mut inner: BoxStream<'static, R>) -> BoxStream<'static, R> {
        let this = self.clone();
        stream::poll_fn(move |context| {
            this.held();
            inner.poll_next_unpin(context)
        })
        .boxed()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MultipartUpload for Watched<Box<dyn MultipartUpload>> {
    /// Parts are made without a permit, which fixes their order, and sent with one.
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (cap, part) = (Arc::clone(&self.cap), self.inner.put_part(data));
        Box::pin(async move {
            assert_eq!(cap.available_permits(), 0, "the permit is held");
            part.await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.held();
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.held();
        self.inner.abort().await
    }
}

#[async_trait]
impl MultipartStore for Watched {
    async fn create_multipart(&self, at: &Path) -> Result<MultipartId> {
        self.held().create_multipart(at).await
    }

    async fn put_part(
        &self,
        at: &Path,
        id: &MultipartId,
        number: usize,
        data: PutPayload,
    ) -> Result<PartId> {
        self.held().put_part(at, id, number, data).await
    }

    async fn complete_multipart(
        &self,
        at: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        self.held().complete_multipart(at, id, parts).await
    }

    async fn abort_multipart(&self, at: &Path, id: &MultipartId) -> Result<()> {
        self.held().abort_multipart(at, id).await
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}
