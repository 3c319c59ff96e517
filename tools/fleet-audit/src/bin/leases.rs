//! Measures a fleet whose processes wait for the leases of one semaphore: the part of the time that they are used,
//! the requests and the commands of scripts for each lease, the shares of the processes, the server's time, with the start
//! and from the middle on, and the gap that a killed or a frozen waiter causes.
//!
//! ```sh
//! cargo run --release -p fleet-audit --bin leases -- processes=8 hold=1 seconds=5
//! ```
//!
//! Each process is one of the operating system. `deaf=4` gives the first four no right for channels, so they poll;
//! `kill=1` and `freeze=1` kill or stop one process in the middle, `halt=2000` stops all for so many milliseconds,
//! `stall=150` stops the server, `large=1` lets the first process ask for all permits at once, `far=30` delays the
//! replies to every second process, and `deadline=1000` is that of the stores. A process that was killed or stopped
//! reports nothing, so its leases are not counted. It fails if more permits were held at once than there are.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use fleet_audit::Arguments;
use redis_on_loopback::Server;
use redis_on_loopback::proxy::{Mode, Proxy};
use tollgate_redis::{Semaphore, Store};

#[derive(Clone, Copy)]
struct Setup {
    processes: u64,
    permits: u64,
    /// The waiters of each process.
    waiters: u64,
    /// In microseconds.
    hold: u64,
    seconds: u64,
    deaf: u64,
    kill: u64,
    freeze: u64,
    stall: u64,
    /// In milliseconds.
    halt: u64,
    /// The processes each of whose leases has all permits.
    large: u64,
    /// The permits of a lease.
    cost: u64,
    /// The way to every second process and back, in milliseconds.
    far: u64,
    /// In milliseconds.
    deadline: u64,
}

impl Setup {
    /// Returns the permits of each lease of a process.
    fn cost_of(&self, index: u64) -> u64 {
        if index < self.large {
            self.permits
        } else {
            self.cost
        }
    }
}

/// The lease that a caller has held: from and to, in microseconds since the epoch.
type Use = (u64, u64);

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut given = Arguments::of_process()?;
    let child = given.text("child");
    let hold = (given.fraction("hold", 1.0) * 1_000.0) as u64;
    let mut value = |name: &str, default| given.number(name, default);
    let setup = Setup {
        processes: value("processes", 8),
        permits: value("permits", 1),
        waiters: value("waiters", 1),
        hold,
        seconds: value("seconds", 5),
        deaf: value("deaf", 0),
        kill: value("kill", 0),
        freeze: value("freeze", 0),
        stall: value("stall", 0),
        halt: value("halt", 0),
        large: value("large", 0),
        cost: value("cost", 1),
        far: value("far", 0),
        deadline: value("deadline", 50),
    };
    given.end();
    match child {
        Some(address) => act(&setup, &address),
        None => measure(&setup),
    }
}

/// Returns the microseconds since the epoch.
fn now() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    time.unwrap_or_default().as_micros() as u64
}

/// The work of one process, which prints its requests, its errors, and its leases.
fn act(setup: &Setup, address: &str) -> Outcome<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build()?.block_on(async {
        let store = Store::new(address)?.deadline(Duration::from_millis(setup.deadline));
        let semaphore = Semaphore::new(&store, "fleet", setup.permits as usize);
        // Connects, and begins together with the others.
        while semaphore.available().await.is_err() {}
        println!("ready");
        std::io::stdin().read_line(&mut String::new())?;
        let before = store.calls();
        let until = Instant::now() + Duration::from_secs(setup.seconds);
        let callers = (0..setup.waiters).map(|_| {
            tokio::spawn(call(
                semaphore.clone(),
                setup.cost as u32,
                Duration::from_micros(setup.hold),
                until,
            ))
        });
        let callers: Vec<_> = callers.collect();
        let (mut uses, mut errors, mut longest) = (Vec::<Use>::new(), 0, 0);
        for caller in callers {
            let (own, failed, waited) = caller.await?;
            uses.extend(own);
            errors += failed;
            longest = longest.max(waited.as_micros());
        }
        let calls = store.calls() - before;
        // The last tickets and leases are given back, so that they delay no process that ends later.
        while semaphore.waiting() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        println!("{calls} {errors}");
        println!("{longest} 0");
        for (from, to) in uses {
            println!("{from} {to}");
        }
        Ok(())
    })
}

/// Returns the leases, the number of errors, and the longest wait.
async fn call(
    semaphore: Semaphore,
    cost: u32,
    hold: Duration,
    until: Instant,
) -> (Vec<Use>, u64, Duration) {
    let (mut uses, mut errors, mut longest) = (Vec::new(), 0, Duration::ZERO);
    loop {
        let asked = Instant::now();
        let wait = async { semaphore.acquire_many(cost).await };
        match tokio::time::timeout_at(until.into(), wait).await {
            Err(_) => return (uses, errors, longest),
            Ok(Ok(lease)) => {
                longest = longest.max(asked.elapsed());
                let (from, begin) = (now(), Instant::now());
                // The timer has milliseconds only.
                tokio::time::sleep(hold.saturating_sub(Duration::from_millis(1))).await;
                while begin.elapsed() < hold {
                    std::thread::sleep(hold.saturating_sub(begin.elapsed()));
                }
                uses.push((from, now()));
                errors += u64::from(lease.release().await.is_err());
            }
            Ok(Err(_)) => errors += 1,
        }
    }
}

fn start(setup: &Setup, server: &Server, proxy: &Proxy, index: u64) -> Outcome<Child> {
    let address = if setup.far > 0 && index % 2 == 1 {
        proxy.address()
    } else if index < setup.deaf {
        server.address().replace("//", "//deaf:secret@")
    } else {
        server.address()
    };
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(format!("child={address}"));
    command.arg(format!("hold={}", setup.hold as f64 / 1_000.0));
    for (name, value) in [
        ("permits", setup.permits),
        ("cost", setup.cost_of(index)),
        ("waiters", setup.waiters),
        ("seconds", setup.seconds),
        ("deadline", setup.deadline),
    ] {
        command.arg(format!("{name}={value}"));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command.spawn()?)
}

/// Returns the seconds of processor time that the server has used.
fn server_time(server: &Server) -> Outcome<f64> {
    let info: String = redis::cmd("INFO")
        .arg("cpu")
        .query(&mut server.connection())?;
    let time = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim_start_matches(':').trim().parse::<f64>().ok())
    };
    let (user, system) = (time("used_cpu_user:"), time("used_cpu_sys:"));
    Ok(user.ok_or("no time")? + system.ok_or("no time")?)
}

/// Returns the number of commands that scripts have made.
fn commands(server: &Server) -> Outcome<u64> {
    let info: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(&mut server.connection())?;
    let of_scripts = info.lines().filter(|line| {
        let others = ["evalsha", "eval", "info", "script"];
        let name = line.strip_prefix("cmdstat_").unwrap_or_default();
        !others.iter().any(|other| name.starts_with(other))
    });
    let counts = of_scripts.filter_map(|line| {
        let (count, _) = line.split_once(":calls=")?.1.split_once(',')?;
        count.parse::<u64>().ok()
    });
    Ok(counts.sum())
}

fn signal(child: &Child, name: &str) -> Outcome<()> {
    let id = child.id().to_string();
    Command::new("kill").args([name, &id]).status()?;
    Ok(())
}

fn measure(setup: &Setup) -> Outcome<()> {
    let server = Server::start();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let network = builder.worker_threads(1).enable_all().build()?;
    let proxy = network.block_on(Proxy::start(server.port()));
    proxy.set(Mode::Delay(Duration::from_millis(setup.far)));
    let rights = [
        "SETUSER",
        "deaf",
        "on",
        ">secret",
        "~*",
        "resetchannels",
        "+@all",
    ];
    let () = redis::cmd("ACL")
        .arg(&rights)
        .query(&mut server.connection())?;
    // Data that are as old as the epoch: nobody waits for the end of a grace time.
    let () = redis::cmd("SET")
        .arg("tollgate:born")
        .arg(1)
        .query(&mut server.connection())?;
    let children = (0..setup.processes).map(|index| start(setup, &server, &proxy, index));
    let mut children = children.collect::<Outcome<Vec<_>>>()?;
    let mut outputs = Vec::new();
    for child in &mut children {
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        output.read_line(&mut String::new())?;
        outputs.push(output);
    }
    for child in &mut children {
        child.stdin.take().ok_or("no input")?.write_all(b"\n")?;
    }
    let begin = now();
    let (before, commands_before) = (server_time(&server)?, commands(&server)?);
    std::thread::sleep(Duration::from_secs(setup.seconds) / 2);
    let (event, at_event) = (now(), server_time(&server)?);
    let mut lost = Vec::new();
    for _ in 0..setup.kill {
        let mut child = children.pop().ok_or("no process")?;
        child.kill()?;
        child.wait()?;
    }
    for _ in 0..setup.freeze {
        let child = children.pop().ok_or("no process")?;
        signal(&child, "-STOP")?;
        lost.push(child);
    }
    if setup.stall > 0 {
        server.stop();
        std::thread::sleep(Duration::from_millis(setup.stall));
        server.go_on();
    }
    if setup.halt > 0 {
        for name in ["-STOP", "-CONT"] {
            for child in &children {
                signal(child, name)?;
            }
            if name == "-STOP" {
                std::thread::sleep(Duration::from_millis(setup.halt));
            }
        }
    }
    // Before the first process ends.
    std::thread::sleep(Duration::from_secs(setup.seconds) * 2 / 5);
    let steady = server_time(&server)? - at_event;
    let steady = steady / (now() - event) as f64 * 1e8;
    let (mut all, mut calls, mut errors, mut each) = (Vec::<Use>::new(), 0, 0, Vec::new());
    let (mut used, mut longest) = (0, [0, 0]);
    // The permits that are taken and given back, by the time; those that are given back come first.
    let mut changes = Vec::<(u64, i64)>::new();
    for (index, (mut child, mut rest)) in (0..).zip(children.into_iter().zip(outputs)) {
        let mut output = String::new();
        rest.read_to_string(&mut output)?;
        child.wait()?;
        let mut lines = output.lines().map(|line| {
            let (one, two) = line.split_once(' ').unwrap_or_default();
            (
                one.parse::<u64>().unwrap_or(0),
                two.parse::<u64>().unwrap_or(0),
            )
        });
        let (own, failed) = lines.next().ok_or("a process printed nothing")?;
        calls += own;
        errors += failed;
        let (waited, _) = lines.next().ok_or("a process printed no wait")?;
        let kind = &mut longest[usize::from(index < setup.large)];
        *kind = waited.max(*kind);
        let uses: Vec<_> = lines.collect();
        let (cost, held) = (
            setup.cost_of(index),
            uses.iter().map(|(from, to)| to - from),
        );
        used += held.sum::<u64>() * cost;
        let of_one = |(from, to): &Use| [(*from, cost as i64), (*to, -(cost as i64))];
        changes.extend(uses.iter().flat_map(of_one));
        each.push(uses.len());
        all.extend(uses);
    }
    let (end, time) = (now(), server_time(&server)? - before);
    let of_scripts = commands(&server)? - commands_before;
    for mut child in lost {
        signal(&child, "-CONT")?;
        child.kill()?;
        child.wait()?;
    }
    all.sort_unstable();
    let (first, last) = (
        all.first().ok_or("no lease")?.0,
        all.last().ok_or("no lease")?.1,
    );
    // The time for which nobody held a lease.
    let mut gaps = Vec::new();
    let mut until = first;
    for (from, to) in &all {
        if *from > until && *from > event {
            gaps.push(from - until);
        }
        until = until.max(*to);
    }
    gaps.sort_unstable();
    let gaps = gaps
        .iter()
        .rev()
        .take(3)
        .map(|gap| format!("{:.1}", *gap as f64 / 1e3));
    println!(
        "{} leases, used {:.1} %, requests a lease {:.2}, commands of scripts {:.1}, least {} most {} a process, errors {errors}, \
         server {:.1} % of a core, {steady:.1} % from the middle on, longest gaps after the middle {} ms",
        all.len(),
        used as f64 / (last - first).max(1) as f64 / setup.permits as f64 * 100.0,
        calls as f64 / all.len().max(1) as f64,
        of_scripts as f64 / all.len().max(1) as f64,
        each.iter().min().unwrap_or(&0),
        each.iter().max().unwrap_or(&0),
        time / (end - begin) as f64 * 1e8,
        gaps.collect::<Vec<_>>().join(", "),
    );
    changes.sort_unstable();
    let (mut held, mut most) = (0, 0);
    for (_, change) in changes {
        held += change;
        most = most.max(held);
    }
    println!("at most {most} of {} permits held at once", setup.permits);
    if setup.far > 0 {
        let half = |from| each.iter().skip(from).step_by(2).sum::<usize>();
        println!("near {} : far {}", half(0), half(1));
    }
    if setup.large > 0 {
        let [small, large] = longest.map(|micros| micros as f64 / 1e6);
        let leases = &each[..setup.large as usize];
        println!(
            "{leases:?} leases of all permits, longest wait {large:.2} s; of the others {small:.2} s"
        );
    }
    if most > setup.permits as i64 {
        return Err("more permits were held than there are".into());
    }
    Ok(())
}
