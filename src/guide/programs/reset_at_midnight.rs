use std::{error::Error, fs, io, path::Path};

use jiff::{ZonedDateTime, civil::Date};
use tollgate::{Algorithm, Quota, RateLimiter};

/// The mails of a day.
pub(crate) struct Daily {
    day: Date,
    mails: RateLimiter,
}

impl Daily {
    /// Begins in the middle of a day on which so many mails were sent.
    fn of_day(now: &ZonedDateTime, sent: u64) -> Result<Self, jiff::Error> {
        let midnight = now.tomorrow()?.start_of_day()?;
        let left = now.duration_until(&midnight).unsigned_abs();
        let mails = RateLimiter::new(Quota::per_day(1000)).algorithm(Algorithm::FixedWindow);
        Ok(Self {
            day: now.date(),
            mails: mails.window_ends_in(left, sent),
        })
    }

    /// Begins with what the last process has stored, if that was on the same day.
    pub(crate) fn load(file: &Path, now: &ZonedDateTime) -> Result<Self, Box<dyn Error>> {
        let (stored, today) = (fs::read_to_string(file), now.date().to_string());
        let sent = match stored.unwrap_or_default().split_once(' ') {
            Some((day, sent)) if day == today => sent.parse()?,
            _ => 0,
        };
        Ok(Self::of_day(now, sent)?)
    }

    /// Stores the day, and how many mails were sent on it.
    pub(crate) fn store(&self, file: &Path) -> io::Result<()> {
        let sent = self.mails.snapshot().in_use;
        fs::write(file, format!("{} {sent}", self.day))
    }

    /// Sends a mail, if one is left for today.
    pub(crate) fn send(&mut self, now: &ZonedDateTime) -> Result<(), Box<dyn Error>> {
        // Not every day has 24 hours, so each has its own limiter.
        if self.day != now.date() {
            *self = Self::of_day(now, 0)?;
        }
        self.mails.try_acquire()?;
        Ok(())
    }
}
