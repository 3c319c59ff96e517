use std::{error::Error, fs, io, path::Path};

use jiff::{SignedDuration, ZonedDateTime, civil::Date};
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
        // The day ends by its date, in `send`: the window must not end sooner, even if the clock is set back by an hour.
        let left = (now.duration_until(&midnight) + SignedDuration::from_hours(1)).unsigned_abs();
        let mails = RateLimiter::new(Quota::per_day(1000)).algorithm(Algorithm::FixedWindow);
        Ok(Self {
            day: now.date(),
            mails: mails.window_ends_in(left, sent),
        })
    }

    /// Begins with what the last process has stored, if that was on the same day.
    pub(crate) fn load(file: &Path, now: &ZonedDateTime) -> Result<Self, Box<dyn Error>> {
        let mut sent = 0;
        // A file that cannot be read is an error: it must not begin the day again.
        if file.try_exists()? {
            let stored = fs::read_to_string(file)?;
            let (day, count) = stored
                .split_once(' ')
                .ok_or("the file of the day is damaged")?;
            if day == now.date().to_string() {
                sent = count.parse()?;
            }
        }
        Ok(Self::of_day(now, sent)?)
    }

    /// Stores the day, and how many mails were sent on it. A crash leaves the old file or the new one.
    pub(crate) fn store(&self, file: &Path) -> io::Result<()> {
        let sent = self.mails.snapshot().in_use;
        let new = file.with_extension("new");
        fs::write(&new, format!("{} {sent}", self.day))?;
        fs::rename(new, file)
    }

    /// Sends a mail, if one is left for today.
    pub(crate) fn send(&mut self, now: &ZonedDateTime) -> Result<(), Box<dyn Error>> {
        // Not every day has 24 hours, so each has its own limiter. A clock that is set back begins no day again.
        if self.day < now.date() {
            *self = Self::of_day(now, 0)?;
        }
        self.mails.try_acquire()?;
        Ok(())
    }
}
