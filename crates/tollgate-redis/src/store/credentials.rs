//! [`Credentials`]: user names and passwords that change while a program runs.
//!
//! The client library asks for them at each connection, and once more to keep the connection; the second request
//! gets the first answer, because a service that gives out tokens should not be asked twice.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use redis::auth::{BasicAuth, StreamingCredentialsProvider};
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, RedisResult};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The time for which an answer is used for another request, and after which a failed renewal is repeated.
const RECENT: Duration = Duration::from_secs(1);

/// A user name and a password, or a token in place of the password.
#[derive(Clone)]
pub struct Credentials {
    user: String,
    password: String,
    valid_for: Option<Duration>,
}

impl Credentials {
    /// Credentials that are valid until the server says otherwise. The user of a server without users is `default`.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            password: password.into(),
            valid_for: None,
        }
    }

    /// Sets how long they are valid, from now on. When four fifths of that have passed, and at least a second, each
    /// connection gets new ones and authenticates again, while calls go on.
    #[must_use]
    pub fn valid_for(mut self, time: Duration) -> Self {
        self.valid_for = Some(time);
        self
    }
}

/// Without the password.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("valid_for", &self.valid_for)
            .finish_non_exhaustive()
    }
}

type Answer = Result<Credentials, Box<dyn Error + Send + Sync>>;
type Asked = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A source of credentials.
#[derive(Clone)]
pub(super) struct Login {
    ask: Arc<dyn Fn() -> Asked + Send + Sync>,
    /// The last answer, and when it came. The lock is held while the next one is asked for.
    recent: Arc<Mutex<Option<(Instant, Credentials)>>>,
}

impl Login {
    pub(super) fn new<A, F, E>(ask: A) -> Self
    where
        A: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let ask = move || -> Asked {
            let asked = ask();
            Box::pin(async move { asked.await.map_err(Into::into) })
        };
        Self {
            ask: Arc::new(ask),
            recent: Arc::default(),
        }
    }

    pub(super) fn applied_to(&self, config: AsyncConnectionConfig) -> AsyncConnectionConfig {
        config.set_credentials_provider(self.clone())
    }

    /// Returns credentials, and the time after which a connection needs new ones.
    async fn credentials(&self) -> RedisResult<(BasicAuth, Option<Duration>)> {
        let mut recent = self.recent.lock().await;
        let known = match recent.take() {
            Some((at, known)) if at.elapsed() < RECENT => recent.insert((at, known)),
            _ => {
                let asked = (self.ask)().await.map_err(|error| {
                    let text = "no credentials";
                    RedisError::from((ErrorKind::AuthenticationFailed, text, error.to_string()))
                })?;
                recent.insert((Instant::now(), asked))
            }
        };
        let (at, known) = known.clone();
        let rest = known.valid_for.map(|time| {
            let renewal = time.mul_f64(0.8).max(RECENT);
            renewal.saturating_sub(at.elapsed())
        });
        Ok((BasicAuth::new(known.user, known.password), rest))
    }
}

impl StreamingCredentialsProvider for Login {
    fn subscribe(&self) -> Pin<Box<dyn Stream<Item = RedisResult<BasicAuth>> + Send + 'static>> {
        let first = (self.clone(), Some(Duration::ZERO));
        Box::pin(stream::unfold(first, async |(login, after)| {
            match after {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
            Some(match login.credentials().await {
                Ok((auth, renewal)) => (Ok(auth), (login, renewal)),
                Err(error) => (Err(error), (login, Some(RECENT))),
            })
        }))
    }
}
