//! [`Throttled`]: puts a store of any kind behind a throttle.
//!
//! 1. No permit is held while a caller's stream is polled, or between the items of a list. So a caller
//!    that deletes the objects of a list needs one permit at a time. The exception is a source of paths with
//!    requests of its own in flight (`buffered`, S3), which can take the permit between the items.
//! 2. With [`Hold::Body`] the stream of a response holds its permit. Nothing else holds a permit after a
//!    method has returned.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use http_body_util::{BodyDataStream, BodyExt};
use object_store::path::Path;
use object_store::signer::{Method, SignedUrlOptions, Signer, Url};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result,
};
use tokio_util::sync::CancellationToken;
use tollgate::{RateLimiter, Throttle};
use tollgate_io::ThrottleIoExt;

use crate::data::{Data, Holding};
use crate::error::of_store;
use crate::limits::{Admitted, Held, Hold, Limits};
use crate::pages;
use crate::pages::ThrottledUpload;

/// A store that puts the calls of another store behind a throttle.
///
/// Use it for stores without HTTP, such as those in memory and of local files. For other stores,
/// [`ThrottledConnector`](crate::ThrottledConnector) counts requests. This type can only count
/// calls: an upload in one call, including its retries, enters the throttle once.
///
/// | call | permits | bytes |
/// |---|---|---|
/// | `put`, `copy`, `rename`, `list_with_delimiter` | one, until it returns | those of `put` before it |
/// | `get_ranges` | one, until it returns, or with [`Hold::Head`] until its data have been received | before it returns |
/// | `get` | one, until its data have been read or dropped, or as [`hold`](Self::hold) sets | while they are read |
/// | `head` | one, until it returns | |
/// | `put_multipart`, its parts, `complete` and `abort` | one each, until it returns | those of a part before it |
/// | `list` | one for each page of 1,000 objects, and one more to find the end if the last page is full. The permit is returned before the first object of the page is yielded. The store lists when the list is first polled, even a store that lists when it is called, such as `InMemory` | |
/// | `delete_stream` | one for the paths that have arrived when it is taken, at most 1,000. It is returned before the first path is yielded. With the paths of a list of this store, it finishes at a cap of 1, even if its consumer makes requests between the items. A source with requests of its own in flight (`buffered`, S3) can block these requests. Paths from several interleaved lists of this store need more permits than lists | |
///
/// # Fairness
///
/// The throttle determines the order. A call first waits for the throttle, and holds its permit while it waits
/// for bytes. Do not give the store a cap that a connector below it also uses: a call would wait for the
/// permit that it holds itself.
///
/// # Cancel safety
///
/// A call that is dropped while it waits leaves the queue, and its charges are refunded. Its bytes are
/// refunded only as far as time has not [paid them off](RateLimiter::refund). A call that is dropped after
/// it was admitted returns its permit, and the charge for its bytes remains. A `get_ranges` whose wait for
/// bytes is dropped or fails is charged for all of them, because they have moved.
///
/// # Errors
///
/// A call that is not admitted fails with [`Error::Generic`](object_store::Error::Generic) of the store
/// `Throttled`, whose source is [`WaitTooLong`](crate::WaitTooLong) or an
/// [`AcquireError`](tollgate::AcquireError); [`cause`](crate::cause) finds the latter in both.
/// A list or a `delete_stream` ends after such an error. The error of a `delete_stream` reports whether 1,000
/// paths had arrived. In that case no more paths are read, and a list with a next path to yield may hold the permit.
///
/// `complete` of an upload fails if a part was not admitted, or was dropped, since the object would lack
/// it. The position of a part is fixed when it is made, so that it cannot be sent again: only `abort` is
/// possible then. A part of [`MultipartStore::put_part`](object_store::multipart::MultipartStore::put_part),
/// which has an explicit index, can be sent again.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use futures_util::TryStreamExt;
/// use object_store::memory::InMemory;
/// use object_store::{ObjectStore, ObjectStoreExt};
/// use tollgate::Semaphore;
/// use tollgate_object_store::Throttled;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> object_store::Result<()> {
/// let cap = Arc::new(Semaphore::new(1));
/// let store = Throttled::new(InMemory::new(), Arc::clone(&cap));
/// store.put(&"a".into(), "data".into()).await?;
///
/// let got = store.get(&"a".into()).await?;
/// assert_eq!(cap.available_permits(), 0);
/// assert_eq!(got.bytes().await?, "data");
/// assert_eq!(cap.available_permits(), 1);
///
/// // A list holds no permit while its objects are used.
/// let mut list = store.list(None);
/// while let Some(object) = list.try_next().await? {
///     store.delete(&object.location).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias = "LimitStore")]
#[doc(alias = "LimitUpload")]
pub struct Throttled<S, T> {
    pub(crate) inner: Arc<S>,
    pub(crate) limits: Limits<T>,
}

impl<S, T> Throttled<S, T>
where
    S: ObjectStore,
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    /// Puts the calls of `store` behind a throttle.
    pub fn new(store: S, throttle: T) -> Self {
        Self {
            inner: Arc::new(store),
            limits: Limits::new(throttle),
        }
    }

    /// Limits the bytes that `put` and parts of uploads send.
    ///
    /// They are charged before the call, and not refunded if it fails. Data larger than the burst
    /// are sent when a burst is available, and the data behind them wait until the rest is paid off.
    #[must_use]
    pub fn bytes_sent(mut self, limiter: impl Into<Option<Arc<RateLimiter>>>) -> Self {
        self.limits.sent = limiter.into();
        self
    }

    /// Limits the bytes that `get` and `get_ranges` return.
    ///
    /// Give the limiter a burst of some milliseconds, as
    /// [`Quota::bytes_per_second`](tollgate::Quota::bytes_per_second) does. Data are read in pieces of at
    /// most a burst, so a burst of 1 yields pieces of one byte, and cannot reach a high rate. If large data are
    /// sent, use another limiter than that of [`bytes_sent`](Self::bytes_sent): in a common
    /// queue a whole put and a piece of 10 ms take turns, and almost nothing is read.
    ///
    /// The bytes of `get` are charged while they are read, and those of `get_ranges` before they are
    /// returned. A limiter of received bytes turns a file of a local store into a stream.
    #[must_use]
    pub fn bytes_received(mut self, limiter: impl Into<Option<Arc<RateLimiter>>>) -> Self {
        self.limits.received = limiter.into();
        self
    }

    /// Sets how long `get` holds its permit, and whether `get_ranges` holds it while it waits for the bytes
    /// that it has received. The default is [`Hold::Body`], which turns a file of a local store into a
    /// stream; with [`Hold::Head`] the file is returned unchanged.
    #[must_use]
    pub fn hold(mut self, hold: Hold) -> Self {
        self.limits.hold = hold;
        self
    }

    /// Sets the longest wait of a call, for all of its limits together. The default is 120 seconds.
    ///
    /// `Duration::MAX` waits without end. The wait of `get_ranges` for the bytes that it has received is
    /// a second one. The limit does not cover reading the data of `get`. All data sent before must be paid
    /// off within this wait, by default 120 MB at 1 MB/s.
    #[must_use]
    pub fn max_wait(mut self, max: Duration) -> Self {
        self.limits.max_wait = max;
        self
    }

    /// Ends all waits with [`Cancelled`](tollgate::ErrorKind::Cancelled) when `token` is cancelled.
    ///
    /// Admitted calls are not affected. Data of `get` can be read to their end, including the waits for received
    /// bytes; closing that limiter ends these waits. Later calls fail at once, including
    /// `MultipartUpload::abort`.
    #[must_use]
    pub fn cancel_on(mut self, token: CancellationToken) -> Self {
        self.limits.token = Some(token);
        self
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S, T> ObjectStore for Throttled<S, T>
where
    S: ObjectStore,
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let _admitted = self.limits.admit_call(payload.content_length()).await?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let _admitted = self.limits.admit_call(0).await?;
        let upload = self.inner.put_multipart_opts(location, opts).await?;
        Ok(Box::new(ThrottledUpload::new(upload, self.limits.clone())))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let head = options.head;
        let Admitted { permit, .. } = self.limits.admit_call(0).await?;
        let result = self.inner.get_opts(location, options).await?;
        if head {
            return Ok(result);
        }
        let held = (self.limits.hold == Hold::Body).then(|| self.limits.held(permit));
        match (&held, &self.limits.received) {
            (None, None) => Ok(result),
            _ => Ok(self.streaming(result, held)),
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let admitted = self.limits.admit_call(0).await?;
        let got = self.inner.get_ranges(location, ranges).await?;
        let _held = (self.limits.hold == Hold::Body).then_some(admitted);
        // A range may go past the end of the object, so the length is not known in advance.
        let length: usize = got.iter().map(Bytes::len).sum();
        self.limits.charge_received(length as u64).await?;
        Ok(got)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        pages::delete(self.limits.clone(), Arc::clone(&self.inner), locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (inner, prefix) = (Arc::clone(&self.inner), prefix.cloned());
        pages::list(self.limits.clone(), move || inner.list(prefix.as_ref()))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (inner, prefix) = (Arc::clone(&self.inner), prefix.cloned());
        let offset = offset.clone();
        pages::list(self.limits.clone(), move || {
            inner.list_with_offset(prefix.as_ref(), &offset)
        })
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let _admitted = self.limits.admit_call(0).await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let _admitted = self.limits.admit_call(0).await?;
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let _admitted = self.limits.admit_call(0).await?;
        self.inner.rename_opts(from, to, options).await
    }
}

impl<S, T> Throttled<S, T>
where
    T: Throttle<Permit: Send> + 'static,
{
    /// Returns a result whose data is a stream that charges for the bytes read, and holds a permit.
    fn streaming(&self, result: GetResult, held: Option<Held<T::Permit>>) -> GetResult {
        let (meta, range) = (result.meta.clone(), result.range.clone());
        let (attributes, extensions) = (result.attributes.clone(), result.extensions.clone());
        let length = range.end.saturating_sub(range.start);
        let mut data = result.into_stream();
        if let Some(limiter) = &self.limits.received {
            let body = Data::new(data, length).throttled(Arc::clone(limiter));
            let body = body.map_err(|error| match error.downcast::<Error>() {
                Ok(error) => *error,
                Err(error) => of_store(error),
            });
            data = BodyDataStream::new(body).boxed();
        }
        if let Some(held) = held {
            data = Holding::new(data, length, held).boxed();
        }
        GetResult {
            payload: GetResultPayload::Stream(data),
            meta,
            range,
            attributes,
            extensions,
        }
    }
}

/// A signature takes no permit. With a key, it is made without a request. Otherwise the necessary request
/// is not counted here. This affects Azure with a token, and Google Cloud without a private key.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S, T> Signer for Throttled<S, T>
where
    S: Signer,
    T: Send + Sync + 'static,
{
    async fn signed_url(&self, method: Method, path: &Path, expires_in: Duration) -> Result<Url> {
        self.inner.signed_url(method, path, expires_in).await
    }

    async fn signed_url_opts(
        &self,
        method: Method,
        path: &Path,
        expires_in: Duration,
        options: &SignedUrlOptions,
    ) -> Result<Url> {
        let inner = &self.inner;
        inner
            .signed_url_opts(method, path, expires_in, options)
            .await
    }

    async fn signed_urls(
        &self,
        method: Method,
        paths: &[Path],
        expires_in: Duration,
    ) -> Result<Vec<Url>> {
        self.inner.signed_urls(method, paths, expires_in).await
    }
}

impl<S: fmt::Debug, T> fmt::Debug for Throttled<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttled")
            .field("inner", &self.inner)
            .field("limits", &self.limits)
            .finish()
    }
}

impl<S: fmt::Display, T> fmt::Display for Throttled<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Throttled({})", self.inner)
    }
}
