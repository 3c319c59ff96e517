//! What is done to the server while the fleet works.

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

use redis_on_loopback::Server;
use tokio::time::sleep;

#[derive(Clone, Debug, Default)]
pub(crate) struct Happened {
    stops: u32,
    flushes: u32,
    cuts: u32,
    /// When it came back and knew nothing, in microseconds of its clock.
    pub(crate) losses: Vec<u64>,
}

/// One after the other, until then.
pub(crate) async fn make(server: &mut Server, end: SystemTime) -> Result<Happened, Box<dyn Error>> {
    let mut happened = Happened::default();
    let pause = Duration::from_millis(100);
    for turn in 0.. {
        sleep(pause).await;
        // The last one is over before the fleet is.
        if end.duration_since(SystemTime::now()).unwrap_or_default() < 5 * pause {
            break;
        }
        match turn % 4 {
            0 => {
                say(server, "SCRIPT", &["FLUSH"])?;
                happened.flushes += 1;
            }
            1 => {
                server.stop();
                sleep(pause).await;
                server.go_on();
                happened.stops += 1;
            }
            2 => {
                say(server, "CLIENT", &["KILL", "TYPE", "normal"])?;
                happened.cuts += 1;
            }
            _ => {
                server.kill();
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
                happened.losses.push(u64::try_from(since.as_micros())?);
                server.restart();
            }
        }
    }
    Ok(happened)
}

fn say(server: &Server, verb: &str, words: &[&str]) -> redis::RedisResult<()> {
    redis::cmd(verb).arg(words).query(&mut server.connection())
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [stops, flushes, cuts] = [self.stops, self.flushes, self.cuts];
        let losses = self.losses.len();
        if stops + flushes + cuts == 0 && losses == 0 {
            return writeln!(f, "no faults");
        }
        writeln!(
            f,
            "the server was stopped {stops} times, emptied of scripts {flushes} times, \
             cut from everybody {cuts} times, killed {losses} times"
        )
    }
}
