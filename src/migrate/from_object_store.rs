//! From object_store's `LimitStore` (object_store 0.14.2) to the crate tollgate-object-store.
//!
//! | object_store | here |
//! |---|---|
//! | `LimitStore::new(store, n)` | `Throttled::new(store, Arc::new(Semaphore::new(n)))`: calls of any store |
//! | the same around a store over HTTP | `.with_http_connector(ThrottledConnector::new(connector, throttle))` on its builder: every HTTP request |
//! | methods of `ObjectStore` on it | the same |
//! | `Display`: `LimitStore(n, inner)` | `Throttled(inner)` |
//! | `LimitUpload::new(upload, n)` | a `Throttled` of its own for that upload: parts pass the throttle of their store |
//! | `ThrottledStore`, which imitates a slow store in tests: `config`, `config_mut`, `ThrottleConfig` with `wait_get_per_call`, `wait_get_per_byte`, `wait_put_per_call`, `wait_delete_per_call`, `wait_list_per_call`, `wait_list_per_entry`, `wait_list_with_delimiter_per_call`, `wait_list_with_delimiter_per_entry` | – |
//!
//! The throttle is any [`Throttle`](crate::Throttle): a [`Semaphore`](crate::Semaphore), tokio's, a
//! [`RateLimiter`](crate::RateLimiter), an adaptive limit, or [`all`](crate::all) of several.
//!
//! # What is different
//!
//! - **What counts**: `LimitStore` counts calls. A call that makes ten requests, such as a list of ten
//!   pages or a put that is repeated, counts once, and holds its permit while it waits to be repeated.
//!   `ThrottledConnector` counts each request, and frees the permit in between.
//! - **A list** holds its permit in `LimitStore` until the stream ends or is dropped, also while the
//!   caller works with what it has got. So with one permit, deleting what a list yields waits without
//!   end. `Throttled` holds one for each page and none between pages.
//! - **`put_multipart`** takes no permit in `LimitStore` to create the upload; here it takes one, as its
//!   parts do in both.
//! - **`get`** holds its permit in both until the body has been read or is dropped; with
//!   `.hold(Hold::Head)` only until the response has begun. A local file is not limited by `LimitStore`
//!   once it is open; here it is read as a stream that holds the permit.
//! - **A wait ends**: after 120 seconds, or `.max_wait(d)`, with an error that says why, and by
//!   `.cancel_on(token)`. `LimitStore` waits without end.
//! - **Errors**: a call that is not admitted fails with `Error::Generic`, whose source has the reason; see
//!   `tollgate_object_store::cause`. `LimitStore` adds no errors.
//! - **Order and cancellation** are those of tokio's semaphore in `LimitStore`, and of the throttle here;
//!   dropping a call is harmless in both.
//! - **Bytes** have limits too, with `.bytes_sent(..)` and `.bytes_received(..)`.
//!
//! # Before and after
//!
//! The programs on the pages of the crate tollgate-object-store run in its tests; this is the change:
//!
//! ```text
//! let store = LimitStore::new(InMemory::new(), 16);
//!
//! let slots = Arc::new(Semaphore::new(16));
//! let store = Throttled::new(InMemory::new(), Arc::clone(&slots));
//! slots.set_permits(4); // The limit can be changed while it is in use.
//! ```
