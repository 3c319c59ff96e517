//! One large file: opened, sent in parts that each are a request of their own, and completed, or
//! else aborted, so that neither an object nor parts of one stay behind.

use std::sync::Arc;

use object_store::multipart::{MultipartStore, PartId};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tollgate_object_store::cause;

use crate::failure::explain;
use crate::source::SourceFile;
use crate::upload::{Job, Outcome, Stop};

/// S3 takes at most so many parts.
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

    /// Sends every part, from one task each. The first failure calls the others off; those that have
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
                // The first failure is the reason; that others were called off for it is not.
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

    /// Tells the server to forget the parts. It waits for its turn whether or not the job was
    /// cancelled: everybody else in line has left then, and those under way will be done. The
    /// limits hold for it as for any other.
    ///
    /// Returns why the upload stopped, with what went wrong here if anything did.
    async fn abort(&self, file: &SourceFile, id: &str, stop: Stop) -> Stop {
        let (stores, id) = (&self.stores, id.to_owned());
        // Nothing closes it, so there is no error.
        let _turn = self.turns.acquire().await;
        let mut aborted = stores.finishing.abort_multipart(&file.key, &id).await;
        // A throttle that lets nobody in any more must not keep parts on the server.
        if aborted.as_ref().is_err_and(|error| cause(error).is_some()) {
            aborted = stores.unlimited.abort_multipart(&file.key, &id).await;
        }
        match (aborted, stop) {
            // Not found: the server has forgotten them by itself.
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
                    failure.message += &format!("; nor could the parts be removed: {why}");
                }
                Stop::Failed(failure)
            }
        }
    }
}
