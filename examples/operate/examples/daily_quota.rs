//! A quota resets at each midnight of a time zone, over restarts and a change to summer time.

#[path = "../../../src/guide/programs/reset_at_midnight.rs"]
mod program;

use jiff::ZonedDateTime;
use program::Daily;
use std::time::Duration;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (minute, folder) = (Duration::from_secs(60), tempfile::tempdir()?);
    let file = folder.path().join("mails");
    let mut now: ZonedDateTime = "2027-03-26T18:00[Europe/Berlin]".parse()?;
    let (mut daily, mut sent) = (Daily::load(&file, &now)?, [0; 5]);
    // A mail each minute, and a restart each 700 minutes; until 1 o'clock of the fifth day.
    for number in 1..=78 * 60 {
        let back = u32::from(number % 3 == 0) * 3; // The clock is set back, also over midnight.
        if daily.send(&(&now - back * minute)).is_ok() {
            sent[now.date().day() as usize - 26] += 1;
        }
        if number % 700 == 0 {
            daily.store(&file)?;
            daily = Daily::load(&file, &now)?;
        }
        now = &now + minute;
        tokio::time::advance(minute).await;
    }
    println!("{sent:?} mails until {now}");
    Ok(())
}
