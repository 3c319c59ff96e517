//! The limits of a program in a file. A wrong file is an error with the line and the reason, and changes
//! nothing. A right one changes all limits, and what is owed stays owed.

use std::{error::Error, fs, io, path::Path};

use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};
use tollgate::{Algorithm, Keyed, Quota, RateLimiter, Semaphore};

/// At most so many at once.
pub static UPLOADS: Semaphore = Semaphore::new(0);
/// All calls of the API.
pub static API: RateLimiter = RateLimiter::new(Quota::per_day(1));
/// The calls of each user.
pub static USERS: Keyed<String, RateLimiter> = Keyed::rate_limiters(Quota::per_day(1));
/// Mails by the window.
pub static MAILS: RateLimiter =
    RateLimiter::new(Quota::per_day(1)).algorithm(Algorithm::FixedWindow);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    /// Not `usize`: `set_permits` panics above `Semaphore::MAX_PERMITS`.
    uploads: u32,
    api: Quota,
    users: Quota,
    #[serde(deserialize_with = "tollgate::rate::deserialize::fixed_window")]
    mails: Quota,
}

/// Reads the file when the program begins, and again.
pub fn load(path: &Path) -> Result<(), Box<dyn Error>> {
    let limits: Limits = toml::from_str(&fs::read_to_string(path)?)?;
    UPLOADS.set_permits(limits.uploads as usize);
    API.set_quota(limits.api);
    USERS.set_quota(limits.users);
    MAILS.set_quota(limits.mails);
    Ok(())
}

/// Reads the file again at each hang-up signal.
pub async fn load_on_hangup(path: &Path) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    while hangup.recv().await.is_some() {
        load(path).unwrap_or_else(|error| eprintln!("the limits stay as they are: {error}"));
    }
    Ok(())
}
