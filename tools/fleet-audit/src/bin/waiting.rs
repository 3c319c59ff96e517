//! Measures a fleet whose processes wait for one rate: the part of the rate that is used, the requests and the
//! processor time of all processes for each admission, the shares of near and of far processes, and whether any
//! tick is above the bound.
//!
//! The bound is that of GCRA. With `algorithm=3` the limit is a sliding window, whose waiters poll, and so on
//! for each algorithm.
//!
//! A process is a store with a connection of its own. Half of them are far: behind a network that delays replies.
//! A third of the time after the start, the world may be disturbed, see [`disturb`].
//!
//! With `sets`, so many more processes wait for a [`LimitSet`] of this rate and of a limit of their own. Each of
//! them also tries another limit of its store, which fails open, 100 times a second: `fallback` is the part of
//! these calls that the server did not decide.
//!
//! With `cost=50`, the first caller of each process needs so many units; how long these callers waited is printed, too.
//! With `members`, so many more processes are those of the operating system, each a `member` of this version, or of
//! another one that `member=path` names.
//!
//! ```sh
//! cargo run --release -p fleet-audit --bin waiting -- processes=200 rate=100 seconds=30 far=10
//! cargo run --release -p fleet-audit --bin waiting -- processes=50 lost=10000
//! cargo run --release -p fleet-audit --bin waiting -- processes=200 rate=1000 kill=1
//! cargo run --release -p fleet-audit --bin waiting -- processes=1 waiters=1000000 seconds=60 warm_up=40
//! cargo run --release -p fleet-audit --bin waiting -- processes=50 sets=2 rate=100 seconds=30
//! cargo run --release -p fleet-audit --bin waiting -- processes=20 burst=50 cost=50
//! cargo run --release -p fleet-audit --bin waiting -- processes=200 freeze=2000
//! cargo run --release -p fleet-audit --bin waiting -- processes=8 members=8
//! ```
//!
//! It exits with 1 if a tick is above the bound, unless the world loses the data of the server.

use std::error::Error;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fleet_audit::Arguments;
use redis_on_loopback::Server;
use redis_on_loopback::proxy::{Mode, Proxy};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tollgate::{AcquireError, Algorithm, Quota};
use tollgate_redis::{Fallback, LimitSet, RateLimiter, Source, Store};

#[derive(Clone, Copy)]
struct Setup {
    processes: usize,
    /// The processes that wait for a set.
    sets: usize,
    rate: u64,
    burst: u64,
    seconds: u64,
    /// In seconds.
    warm_up: Option<f64>,
    /// The callers of each process that wait at a time.
    waiters: usize,
    /// Those of each process that waits for a set.
    set_waiters: usize,
    /// The rate of the limit that a set has beside the common one.
    tenant: u64,
    /// The way to the far half and back, in milliseconds.
    far: u64,
    /// In milliseconds.
    horizon: u64,
    /// The mean time after which a caller leaves, in milliseconds; 0 for never.
    leave: u64,
    /// The longest timeout of a caller, in milliseconds; 0 for none.
    timeout: u64,
    /// The number of processes that end in a second; others come in their place.
    churn: u64,
    /// The index of the algorithm among all of them.
    algorithm: u64,
    /// The cost of the first caller of each process; that of the others is 1.
    cost: u64,
    /// The processes that are those of the operating system.
    members: usize,
    /// The disturbance: its name, and how long it takes, in milliseconds.
    disturbance: Option<(&'static str, u64)>,
}

/// The names of disturbances.
const DISTURBANCES: [&str; 11] = [
    "lost", "hole", "stop", "stall", "freeze", "flush", "state", "del", "readonly", "kill", "quota",
];

#[derive(Clone, Copy)]
struct Admission {
    /// The microsecond of the server.
    tick: u64,
    cost: u64,
    process: usize,
    time: u64,
    /// How long the caller waited.
    waited: u64,
}

/// All admissions of all processes, so that those of a process that is killed are known.
static ADMISSIONS: Mutex<Vec<Admission>> = Mutex::new(Vec::new());

/// All stores that were made.
type Stores = Arc<Mutex<Vec<Store>>>;

fn calls(stores: &Stores) -> u64 {
    let stores = stores.lock().unwrap_or_else(PoisonError::into_inner);
    stores.iter().map(Store::calls).sum()
}

impl Setup {
    /// Admissions and requests count after this time: five seconds, or a quarter of the time if it is shorter.
    fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.warm_up.unwrap_or((self.seconds as f64 / 4.0).min(5.0)))
    }

    /// How long they count: until half a second before the end.
    fn counted(&self) -> Duration {
        let end = Duration::from_secs(self.seconds).saturating_sub(Duration::from_millis(500));
        end.saturating_sub(self.warm_up())
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut given = Arguments::of_process()?;
    let member = given.text("member");
    let disturbance = DISTURBANCES.into_iter().find(|name| given.has(name));
    let disturbance = disturbance.map(|name| (name, given.number(name, 0)));
    let mut value = |name: &str, default| given.number(name, default);
    let setup = Setup {
        processes: value("processes", 200) as usize,
        rate: value("rate", 100),
        burst: value("burst", 1),
        seconds: value("seconds", 30),
        warm_up: Some(value("warm_up", 0) as f64).filter(|it| *it > 0.0),
        sets: value("sets", 0) as usize,
        waiters: value("waiters", 5) as usize,
        set_waiters: value("set_waiters", 5) as usize,
        tenant: value("tenant", 1_000_000),
        far: value("far", 0),
        horizon: value("horizon", 250),
        leave: value("leave", 0),
        timeout: value("timeout", 0),
        churn: value("churn", 0),
        algorithm: value("algorithm", 0),
        cost: value("cost", 1),
        members: value("members", 0) as usize,
        disturbance,
    };
    given.end();
    if setup.counted().is_zero() {
        return Err("warm_up and half a second more are not shorter than seconds".into());
    }
    // Beside this program.
    let beside = || Ok(std::env::current_exe()?.with_file_name("member"));
    let member = member.map_or_else(beside, |path| Ok::<_, std::io::Error>(path.into()))?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    runtime.block_on(run(&setup, &member))
}

/// Starts the processes of the operating system.
fn start(setup: &Setup, member: &PathBuf, address: &str) -> std::io::Result<Vec<Child>> {
    let numbers = [
        setup.rate,
        setup.burst,
        setup.seconds * 1000,
        setup.waiters as u64,
    ];
    let members = (0..setup.members).map(|_| {
        let mut command = Command::new(member);
        command
            .arg(address)
            .args(numbers.map(|number| number.to_string()));
        command.stdout(Stdio::piped()).spawn()
    });
    members.collect()
}

/// Takes the admissions of the processes of the operating system, as their programs have printed them.
fn collect(setup: &Setup, members: Vec<Child>) -> Result<(), Box<dyn Error>> {
    for (index, member) in members.into_iter().enumerate() {
        let printed = String::from_utf8(member.wait_with_output()?.stdout)?;
        for line in printed.lines() {
            let numbers = line.split(' ').map(str::parse);
            let [tick, cost, time] = numbers.collect::<Result<Vec<_>, _>>()?[..] else {
                return Err(format!("a member printed {line}").into());
            };
            admissions().push(Admission {
                tick,
                cost,
                process: setup.all() + index,
                time,
                waited: 0,
            });
        }
    }
    Ok(())
}

async fn run(setup: &Setup, member: &PathBuf) -> Result<ExitCode, Box<dyn Error>> {
    let server = Server::start();
    let server_address = server.address();
    let proxy = Proxy::start(server.port()).await;
    proxy.set(Mode::Delay(Duration::from_millis(setup.far)));
    let end = Instant::now() + Duration::from_secs(setup.seconds);
    let begin = now();
    let members = start(setup, member, &server_address)?;
    let mut processes = Vec::new();
    let stores = Stores::default();
    // Of the processes that are killed.
    let doomed = setup.is("kill").then(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.enable_all().build().expect("a runtime")
    });
    for index in 0..setup.all() {
        let lives = Some(setup.churn).filter(|churn| *churn > 0);
        // In turn, so that `churn` of them end in each second.
        let life = lives.map(|churn| {
            let all = setup.all() as f64 / churn as f64;
            (all, all * (index + 1) as f64 / setup.all() as f64)
        });
        let is_far = (setup.far > 0 || setup.disturbance.is_some()) && index % 2 == 1;
        let address = if is_far {
            proxy.address()
        } else {
            server_address.clone()
        };
        let stores = Arc::clone(&stores);
        let process = process(*setup, index, (address, stores), life, end);
        processes.push(match &doomed {
            Some(doomed) if index % 2 == 1 => doomed.spawn(process),
            _ => tokio::spawn(process),
        });
    }
    // This program is the last one, because it cannot stop others while it is stopped.
    let ids = members.iter().map(Child::id).chain([std::process::id()]);
    let disturbing = disturb(*setup, ids.collect(), server, proxy, doomed);
    tokio::time::sleep(setup.warm_up()).await;
    let before = (calls(&stores), processor_time());
    tokio::time::sleep(setup.counted()).await;
    let calls = calls(&stores) - before.0;
    let processor = processor_time() - before.1;
    let [tries, fallbacks] = [&TRIES, &FALLBACKS].map(|count| count.load(Ordering::Relaxed));
    for process in processes {
        match process.await {
            Err(error) if error.is_panic() => panic!("a process panics: {error}"),
            // It may have been killed.
            _ => {}
        }
    }
    collect(setup, members)?;
    disturbing.await.expect("it does not panic");
    let admissions = std::mem::take(&mut *admissions());
    // The tries are calls, too.
    let calls = calls.saturating_sub(tries - fallbacks);
    let excess = report(setup, &admissions, begin, calls, processor);
    if setup.sets > 0 {
        let part = 100.0 * fallbacks as f64 / tries.max(1) as f64;
        println!("another limit beside the sets: fallback {part:.1} % of {tries}");
    }
    // What was held before the data were lost comes on top, and with other algorithms the bound is another one.
    let is_bound = setup.algorithm == 0 && !["state", "del", "quota"].iter().any(|it| setup.is(it));
    Ok(ExitCode::from(u8::from(is_bound && excess > 0)))
}

/// The calls of other limits beside sets, while admissions count; and those that the fallback decided.
static TRIES: AtomicU64 = AtomicU64::new(0);
static FALLBACKS: AtomicU64 = AtomicU64::new(0);

/// Tries another limit of the store while admissions count.
async fn beside(store: Store, setup: Setup, from: Instant, until: Instant) {
    let other = RateLimiter::new(
        &store,
        "other",
        Quota::per_second(1_000_000).burst(1_000_000),
    );
    let other = other.fallback(Fallback::FailOpen);
    let counted = from + setup.warm_up()..from + setup.warm_up() + setup.counted();
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if counted.contains(&Instant::now()) {
            let charge = other.try_acquire().await.expect("it fails open");
            TRIES.fetch_add(1, Ordering::Relaxed);
            let is_fallback = charge.source() == Source::Fallback;
            FALLBACKS.fetch_add(u64::from(is_fallback), Ordering::Relaxed);
        }
    }
}

/// What the callers of a process wait for.
#[derive(Clone)]
enum Limits {
    One(RateLimiter),
    Set(LimitSet),
}

impl Limits {
    /// Waits, at most for a time. Returns the microsecond of the charge.
    async fn acquire(&self, cost: u64, time: Option<Duration>) -> Result<u64, AcquireError> {
        let time = time.unwrap_or(Duration::MAX);
        match self {
            Self::One(limiter) => {
                let charge = limiter.acquire_many(cost).timeout(time).await?;
                Ok(since_epoch(charge.at()))
            }
            Self::Set(set) => {
                let charges = set.acquire_many(cost).timeout(time).await?;
                Ok(charges.at(0).map_or(0, since_epoch))
            }
        }
    }
}

/// Disturbs the fleet for a time:
///
/// - `lost`: the replies to the far half are lost
/// - `hole`: nothing from and to the far half arrives before the end
/// - `stop`: the server stops for a fifth of each second
/// - `stall`: the server stops until the end
/// - `freeze`: all processes stop until the end, once; the server does not
/// - `flush`: the server forgets all scripts twenty times a second
/// - `state`: the server loses its data once a second
/// - `del`: the limit is deleted once a second
/// - `readonly`: the server is a replica that refuses writes
/// - `kill`: half of the processes end at once, without a goodbye
/// - `quota`: before, the limit has one call a minute; here nothing happens
///
/// `ids` are those of all processes of the operating system, this one included.
fn disturb(
    setup: Setup,
    ids: Vec<u32>,
    server: Server,
    proxy: Proxy,
    doomed: Option<Runtime>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let pause = |millis| tokio::time::sleep(Duration::from_millis(millis));
        let Some((name, time)) = setup.disturbance else {
            pause(setup.seconds * 1000).await;
            return;
        };
        pause(setup.seconds * 1000 / 3).await;
        let mut connection = server.connection();
        let mut ask = |words: &[&str]| {
            let mut command = redis::cmd(words[0]);
            let asked = command.arg(&words[1..]).exec(&mut connection);
            asked.expect("the server answers");
        };
        let mode = match name {
            "lost" => Mode::DropReplies,
            "hole" => Mode::BlackHole,
            _ => Mode::Delay(Duration::from_millis(setup.far)),
        };
        proxy.set(mode);
        if let Some(doomed) = doomed {
            doomed.shutdown_background();
        }
        if name == "readonly" {
            ask(&["REPLICAOF", "127.0.0.1", "1"]);
        }
        let end = Instant::now() + Duration::from_millis(time);
        while Instant::now() < end {
            match name {
                "stop" => {
                    server.stop();
                    pause(200).await;
                    server.go_on();
                    pause(800).await;
                }
                "stall" => {
                    server.stop();
                    pause(time).await;
                    server.go_on();
                }
                "freeze" => {
                    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
                    let (ids, seconds) = (ids.join(" "), time as f64 / 1000.0);
                    let words = format!("kill -STOP {ids}; sleep {seconds}; kill -CONT {ids}");
                    // It stops this program, so it cannot be waited for in between.
                    let stopping = Command::new("sh").args(["-c", &words]).spawn();
                    stopping.expect("a shell").wait().expect("it ends");
                }
                "flush" => {
                    ask(&["SCRIPT", "FLUSH"]);
                    pause(50).await;
                }
                "state" => {
                    ask(&["FLUSHALL"]);
                    pause(1000).await;
                }
                "del" => {
                    ask(&["DEL", "fleet"]);
                    pause(1000).await;
                }
                _ => pause(time).await,
            }
        }
        if name == "readonly" {
            ask(&["REPLICAOF", "NO", "ONE"]);
        }
        proxy.set(Mode::Delay(Duration::from_millis(setup.far)));
        pause(setup.seconds * 1000 * 2 / 3).await;
    })
}

impl Setup {
    /// The number of processes.
    fn all(&self) -> usize {
        self.processes + self.sets
    }

    /// Returns whether this is the disturbance.
    fn is(&self, name: &str) -> bool {
        self.disturbance.is_some_and(|(it, _)| it == name)
    }

    fn quota(&self) -> Quota {
        Quota::per_second(self.rate).burst(self.burst)
    }

    fn limits(&self, store: &Store, index: usize) -> Limits {
        let quota = self.quota();
        let horizon = Duration::from_millis(self.horizon);
        if index < self.processes {
            let first = if self.is("quota") {
                Quota::per_minute(1)
            } else {
                quota
            };
            let limiter = RateLimiter::new(store, "fleet", first);
            let limiter = limiter.algorithm(Algorithm::all()[self.algorithm as usize]);
            return Limits::One(limiter.horizon(horizon));
        }
        // A millisecond of it, so that callers that are charged in one request do not wait for it.
        let tenant = Quota::per_second(self.tenant).burst(self.burst.max(self.tenant / 1000));
        let set = LimitSet::new(store).horizon(horizon).limit("fleet", quota);
        Limits::Set(set.limit(format!("tenant{index}"), tenant))
    }
}

/// Runs a process until the end, or until its life is over and another one takes its place.
async fn process(
    setup: Setup,
    index: usize,
    (address, stores): (String, Stores),
    life: Option<(f64, f64)>,
    end: Instant,
) {
    let from = end - Duration::from_secs(setup.seconds);
    let mut ends = life.map(|(_, first)| Instant::now() + Duration::from_secs_f64(first));
    while Instant::now() < end {
        let store = Store::new(&address)
            .expect("an address")
            .deadline(Duration::from_secs(2));
        stores
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(store.clone());
        let limits = setup.limits(&store, index);
        let until = ends.map_or(end, |ends| ends.min(end));
        let waiters = match &limits {
            Limits::One(limiter) => {
                if setup.is("quota") {
                    let limiter = limiter.clone();
                    tokio::spawn(async move {
                        let third = from + Duration::from_secs(setup.seconds) / 3;
                        tokio::time::sleep_until(third.into()).await;
                        limiter.set_quota(setup.quota());
                    });
                }
                setup.waiters
            }
            Limits::Set(_) => {
                tokio::spawn(beside(store.clone(), setup, from, until));
                setup.set_waiters
            }
        };
        let callers = (0..waiters).map(|number| {
            let cost = if number == 0 { setup.cost } else { 1 };
            tokio::spawn(caller(limits.clone(), index, cost, setup, until))
        });
        let callers = callers.collect::<Vec<_>>();
        tokio::time::sleep_until(until.into()).await;
        // Says goodbye. Those who wait have no timers of their own, because a million of them would be measured, too.
        match limits {
            Limits::One(limiter) => limiter.shutdown().await,
            Limits::Set(set) => set.shutdown().await,
        }
        for caller in callers {
            caller.await.expect("a caller panics");
        }
        ends = life.map(|(whole, _)| Instant::now() + Duration::from_secs_f64(whole));
    }
}

async fn caller(limits: Limits, process: usize, cost: u64, setup: Setup, until: Instant) {
    loop {
        let begin = now();
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let time = match (setup.leave, setup.timeout) {
            (0, 0) => Duration::MAX,
            (0, most) => Duration::from_secs_f64(fastrand::f64() * most as f64 / 1000.0),
            (mean, _) => {
                Duration::from_secs_f64(-fastrand::f64().max(1e-9).ln() * mean as f64 / 1000.0)
            }
        };
        let answer = if setup.timeout > 0 {
            Some(limits.acquire(cost, Some(time.min(left))).await)
        } else if setup.leave > 0 {
            let waits = tokio::time::timeout(time.min(left), limits.acquire(cost, None));
            waits.await.ok()
        } else {
            Some(limits.acquire(cost, None).await)
        };
        let answer = match answer {
            Some(Err(_)) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                None
            }
            answer => answer.and_then(Result::ok),
        };
        let time = now();
        admissions().extend(answer.map(|tick| Admission {
            tick,
            cost,
            process,
            time,
            waited: time.saturating_sub(begin),
        }));
    }
}

fn now() -> u64 {
    since_epoch(SystemTime::now())
}

/// In microseconds.
fn since_epoch(time: SystemTime) -> u64 {
    let time = time.duration_since(SystemTime::UNIX_EPOCH);
    time.unwrap_or_default().as_micros() as u64
}

fn admissions() -> MutexGuard<'static, Vec<Admission>> {
    ADMISSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the processor time of the threads of this program, which has all processes and no server.
fn processor_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let of_thread = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split(' ').next().and_then(|it| it.parse::<u64>().ok())
    };
    let times = threads.filter_map(|it| of_thread(it.ok()?.path().join("schedstat")));
    Duration::from_nanos(times.sum())
}

/// Prints the figures. Returns by how many units the ticks are above the bound.
fn report(
    setup: &Setup,
    admissions: &[Admission],
    from: u64,
    calls: u64,
    processor: Duration,
) -> u64 {
    let begin = from + setup.warm_up().as_micros() as u64;
    let last = begin + setup.counted().as_micros() as u64;
    let counted = admissions.iter();
    let counted: Vec<_> = counted
        .filter(|it| (begin..last).contains(&it.tick))
        .collect();
    let due = (last - begin) as f64 / 1e6 * setup.rate as f64;
    let mut each = vec![0_u64; setup.all() + setup.members];
    for it in &counted {
        each[it.process] += it.cost;
    }
    let members = each.split_off(setup.all());
    let sets = each.split_off(setup.processes);
    let mean = |group: &[u64]| group.iter().sum::<u64>() as f64 / group.len().max(1) as f64;
    let half = |far| {
        mean(
            &each
                .iter()
                .copied()
                .skip(far)
                .step_by(2)
                .collect::<Vec<_>>(),
        )
    };
    // The calls of members are not known.
    let own = counted
        .iter()
        .filter(|it| it.process < setup.all())
        .count()
        .max(1) as f64;
    let excess_of = |at: fn(&Admission) -> u64| {
        excess(
            setup,
            admissions.iter().map(|it| (at(it), it.cost)).collect(),
        )
    };
    let above = excess_of(|it| it.tick);
    println!(
        "used {:.3}, calls an admission {:.2}, processor time {:.0} µs, near {:.0} : far {:.0}, least {} most {}, above the bound by {above}; by the times of admission {}",
        counted.iter().map(|it| it.cost).sum::<u64>() as f64 / due,
        calls as f64 / own,
        processor.as_secs_f64() * 1e6 / own,
        half(0),
        half(1),
        each.iter().min().unwrap_or(&0),
        each.iter().max().unwrap_or(&0),
        excess_of(|it| it.time),
    );
    if !sets.is_empty() {
        let share = due / setup.all() as f64;
        let part = mean(&sets) / share;
        println!("sets {sets:?}: {part:.2} of their part of the rate");
    }
    if !members.is_empty() {
        println!("members {members:?}");
    }
    if setup.cost > 1 {
        for (name, is_large) in [("large", true), ("small", false)] {
            let group = counted.iter().filter(|it| (it.cost > 1) == is_large);
            let waits: Vec<_> = group.clone().map(|it| it.waited).collect();
            println!(
                "{name}: {} calls, {} units, waited {:.2} s on average, at most {:.2} s",
                waits.len(),
                group.map(|it| it.cost).sum::<u64>(),
                mean(&waits) / 1e6,
                waits.iter().max().map_or(0.0, |most| *most as f64 / 1e6),
            );
        }
    }
    above
}

/// Returns by how many units these admissions, with their costs, exceed the burst and what the rate has paid off.
fn excess(setup: &Setup, mut admissions: Vec<(u64, u64)>) -> u64 {
    admissions.sort_unstable();
    // In microseconds times the rate: a debt as on the server.
    let (mut debt, mut at, mut most) = (0_u64, 0, 0);
    for (time, cost) in admissions {
        debt = debt.saturating_sub((time - at) * setup.rate) + cost * 1_000_000;
        (at, most) = (time, most.max(debt));
    }
    let bound = setup.burst * 1_000_000 + setup.rate;
    most.saturating_sub(bound).div_ceil(1_000_000)
}
