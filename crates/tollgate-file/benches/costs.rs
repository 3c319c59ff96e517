//! Prints what limits in files cost: the time and the system calls of a decision, and how much of one permit eight
//! processes use that ask again at once, with their shares. `cargo bench -p tollgate-file` runs all; a word after
//! `--` runs the rows whose names contain it. Exits with 1 if a row misses its bound.

use std::env;
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollgate::Quota;
use tollgate_file::{FileLimiter, FileSemaphore};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The number of decisions in a measurement, and of measurements, of which the fastest counts: one that is over
/// before another program gets the processor.
const DECISIONS: u32 = 100;
const MEASUREMENTS: u32 = 2_000;

/// The number of measurements under strace, which makes each call many times as long.
const TRACED: u32 = 100;

const PROCESSES: usize = 8;

/// Rows of eight processes: the time for which a permit is held, the number of holds, and the least part that is
/// used.
const HELD: [(Duration, usize, f64); 3] = [
    (Duration::from_millis(20), 60, 0.80),
    (Duration::from_millis(20), 600, 0.80),
    (Duration::from_secs(1), 60, 0.97),
];

fn main() -> Result<ExitCode> {
    match env::var("ROLE").as_deref() {
        Ok("decide") => decide(TRACED).map(|()| ExitCode::SUCCESS),
        Ok("hold") => hold().map(|()| ExitCode::SUCCESS),
        Ok("take") => take().map(|()| ExitCode::SUCCESS),
        _ => rows(),
    }
}

fn rows() -> Result<ExitCode> {
    let asked = env::args()
        .skip(1)
        .find(|it| !it.starts_with('-'))
        .unwrap_or_default();
    let mut passed = true;
    let mut row = |name: &str, run: &dyn Fn() -> Result<bool>| -> Result<()> {
        if name.contains(&asked) {
            passed &= run()?;
        }
        Ok(())
    };
    row("decision", &|| {
        let (micros, bare) = compare()?;
        let ratio = micros / bare;
        println!(
            "decision: {micros:.2} µs, at most 5 on a quiet machine; {ratio:.2} of its system calls alone, {bare:.2} µs"
        );
        // Both take longer on a busy one.
        Ok(micros <= 5.0 || ratio <= 1.5)
    })?;
    row("system calls", &|| {
        let Some(calls) = system_calls()? else {
            println!("NOT CHECKED: system calls of a decision, without strace");
            return Ok(true);
        };
        println!("system calls: {calls:.2} for a decision, at most 8");
        Ok(calls < 8.1)
    })?;
    for rate in [10, 100, 1000] {
        row(&format!("rate of {rate}/s"), &|| taken(rate))?;
    }
    for (time, holds, least) in HELD {
        row(&format!("held for {time:?}"), &|| held(time, holds, least))?;
    }
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn limiter(folder: &Path) -> Result<FileLimiter> {
    let quota = Quota::per_second(100_000_000).burst(1_000_000);
    Ok(FileLimiter::open(folder.join("rate"), quota)?)
}

/// Makes decisions that admit.
fn decide(measurements: u32) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let limiter = limiter(folder.path())?;
    for _ in 0..measurements * DECISIONS {
        black_box(limiter.try_acquire()?);
    }
    Ok(())
}

/// Returns the microseconds of a decision, and of its system calls alone, on the same file and in turn.
fn compare() -> Result<(f64, f64)> {
    let folder = tempfile::tempdir()?;
    let limiter = limiter(folder.path())?;
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..MEASUREMENTS {
        let decision = time(|| Ok(_ = black_box(limiter.try_acquire()?)))?;
        let bare = time(|| bare_calls(limiter.path()))?;
        fastest = [fastest[0].min(decision), fastest[1].min(bare)];
    }
    let [decision, bare] = fastest.map(|it| it.as_secs_f64() * 1e6 / f64::from(DECISIONS));
    Ok((decision, bare))
}

/// Makes the system calls of a decision, decides nothing, and writes what it has read.
fn bare_calls(path: &Path) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
    file.try_lock()?;
    black_box((file.metadata()?, path.symlink_metadata()?));
    let mut record = [0; 160];
    file.read_at(&mut record, 0)?;
    file.write_at(&record, 0)?;
    Ok(file.unlock()?)
}

/// Returns the time of some operations.
fn time(mut operation: impl FnMut() -> Result<()>) -> Result<Duration> {
    let begun = Instant::now();
    for _ in 0..DECISIONS {
        operation()?;
    }
    Ok(begun.elapsed())
}

/// Returns the number of calls of a decision. What the process does once is in the measurement, too.
fn system_calls() -> Result<Option<f64>> {
    let folder = tempfile::tempdir()?;
    let counts = folder.path().join("counts");
    let mut strace = Command::new("strace");
    let strace = strace.args(["-f", "-c", "-o"]).arg(&counts);
    match strace
        .arg(env::current_exe()?)
        .env("ROLE", "decide")
        .status()
    {
        Ok(status) if status.success() => {}
        _ => return Ok(None),
    }
    let total = fs::read_to_string(counts)?;
    let total = total
        .lines()
        .last()
        .and_then(|line| line.split_whitespace().nth(3));
    let total: f64 = total.ok_or("strace prints a total")?.parse()?;
    Ok(Some(total / f64::from(DECISIONS * TRACED)))
}

/// Lets processes wait for one rate with a burst of 1, and prints the part that they use of it, and their shares.
/// The system decides how late timers are, so there is no bound.
fn taken(rate: u64) -> Result<bool> {
    let takes = 3 * rate as usize;
    let interval = Duration::from_secs(1) / rate as u32;
    let (lines, shares) = run("take", &rate.to_string(), interval, takes)?;
    let whole = (lines[takes - 1].1 - lines[0].1) as f64 / 1e6;
    let used = (takes - 1) as f64 / rate as f64 / whole;
    println!(
        "rate of {rate}/s by {PROCESSES} processes, {takes} units: {:.1} % used; shares {shares:?}",
        100.0 * used,
    );
    Ok(true)
}

/// Lets processes hold one permit in turn, and prints the part of the time in which it was held, and their shares.
fn held(time: Duration, holds: usize, least: f64) -> Result<bool> {
    let (lines, shares) = run("hold", &time.as_micros().to_string(), time, holds)?;
    let idle: u64 = lines.windows(2).map(|two| two[1].1 - two[0].2).sum();
    let whole = lines[holds - 1].2 - lines[0].1;
    let used = 1.0 - idle as f64 / whole as f64;
    println!(
        "held for {time:?} by {PROCESSES} processes, {holds} times: {:.1} % used, at least {:.0}; shares {shares:?}",
        100.0 * used,
        100.0 * least,
    );
    Ok(used >= least && 2 * shares[0] >= shares[PROCESSES - 1])
}

/// Lets processes play a role until their log has a number of lines, and returns the last of these, and how many
/// are of each process. The first lines, until all have come, do not count.
fn run(
    role: &str,
    number: &str,
    each: Duration,
    counted: usize,
) -> Result<(Vec<Line>, Vec<usize>)> {
    let folder = tempfile::tempdir()?;
    let (path, log) = (folder.path().join("limit"), folder.path().join("log"));
    let start = || {
        let mut child = Command::new(env::current_exe()?);
        let child = child.env("ROLE", role).env("NUMBER", number);
        child.env("LIMIT", &path).env("LOG", &log).spawn()
    };
    let mut children = (0..PROCESSES)
        .map(|_| start())
        .collect::<std::io::Result<Vec<_>>>()?;
    let (mut lines, mut skipped) = (Vec::new(), usize::MAX);
    while lines.len() < counted.saturating_add(skipped) {
        thread::sleep(each);
        lines = read(&log);
        let has_come = |child: &std::process::Child| lines.iter().any(|line| line.0 == child.id());
        if skipped == usize::MAX && children.iter().all(has_come) {
            skipped = lines.len();
        }
    }
    for child in &mut children {
        child.kill()?;
        child.wait()?;
    }
    let lines = lines[skipped..skipped + counted].to_vec();
    let share = |child: &std::process::Child| {
        let id = child.id();
        lines.iter().filter(|line| line.0 == id).count()
    };
    let mut shares: Vec<_> = children.iter().map(share).collect();
    shares.sort_unstable();
    Ok((lines, shares))
}

/// A process, and the microseconds at which it began and ended to hold a permit, or was charged.
type Line = (u32, u64, u64);

/// Returns the whole lines of the log.
fn read(log: &Path) -> Vec<Line> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let line = |line: &str| {
        let mut numbers = line.split(' ').map(|it| it.parse().unwrap_or_default());
        let mut next = || numbers.next().unwrap_or_default();
        (next() as u32, next(), next())
    };
    whole.lines().map(line).collect()
}

fn limit() -> Result<PathBuf> {
    Ok(env::var_os("LIMIT").ok_or("a limit")?.into())
}

/// Appends a line to the log.
fn write(begun: u128, ended: u128) -> Result<()> {
    let mut log = fs::OpenOptions::new();
    let mut log = log.append(true).create(true).open(env::var("LOG")?)?;
    let line = format!("{} {begun} {ended}\n", std::process::id());
    Ok(std::io::Write::write_all(&mut log, line.as_bytes())?)
}

fn hold() -> Result<()> {
    let time = Duration::from_micros(env::var("NUMBER")?.parse()?);
    let semaphore = FileSemaphore::open(limit()?, 1)?;
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|it| it.as_micros())
    };
    loop {
        let permit = semaphore.acquire().wait()?;
        let begun = now()?;
        thread::sleep(time);
        write(begun, now()?)?;
        drop(permit);
    }
}

fn take() -> Result<()> {
    let limiter = FileLimiter::open(limit()?, Quota::per_second(env::var("NUMBER")?.parse()?))?;
    loop {
        let at = limiter.acquire().wait()?.at().as_nanos() / 1000;
        write(at.into(), at.into())?;
    }
}
