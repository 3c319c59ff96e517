//! A map of gates: a pause stops its key alone, and lasts as long as was said, whatever else the map has to keep.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tollgate::keyed::Key;
use tollgate::throttle::Weighted;
use tollgate::time::ManualClock;
use tollgate::wait::Waiting;
use tollgate::{Clock, ErrorKind, Gate, Keyed, Semaphore, Throttle, all};

use crate::support::Waiter;
use crate::support::random::Random;

const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);

fn chats(max_keys: usize) -> (Arc<Keyed<u64, Gate>>, ManualClock) {
    let clock = Clock::manual();
    let chats = Keyed::new(Gate::new().clock(&clock)).max_keys(max_keys);
    (Arc::new(chats), clock)
}

#[test]
fn pause_for_stops_its_key_alone_up_to_the_exact_tick() {
    let clock = Clock::manual();
    let hosts = Keyed::<String, _>::new(Gate::new().clock(&clock));
    hosts.key("a").pause_for(SECOND).unwrap();
    hosts.key("a").pause_for(NANO).unwrap();
    assert!(hosts.key("b").try_acquire().is_ok() && hosts.key("b").is_open());
    let until = hosts.key("a").blocked_until().unwrap();
    assert_eq!(until.as_nanos(), 1_000_000_000);
    clock.advance(SECOND - NANO);
    let refused = hosts.key("a").try_acquire_many(5).unwrap_err();
    assert_eq!(
        (refused.kind(), refused.retry_after()),
        (ErrorKind::RateLimited, Some(NANO))
    );
    assert_eq!(hosts.key("a").snapshot().available, 0);
    clock.advance(NANO);
    hosts.key("a").acquire().wait().unwrap();
    assert_eq!(hosts.key("a").blocked_until(), None);
}

#[test]
fn acquire_of_a_key_that_is_not_paused_keeps_no_key() {
    let (chats, _clock) = chats(1);
    chats.key(&1).pause_for(SECOND).unwrap();
    for key in 2..1000 {
        chats.key(&key).try_acquire().unwrap();
        chats.key(&key).acquire().wait().unwrap();
        chats.key(&key).open();
        chats.key(&key).pause_for(Duration::ZERO).unwrap();
        assert_eq!(chats.key(&key).snapshot().available, u64::MAX);
    }
    assert_eq!(chats.len(), 1);
}

/// A key beyond the six that a new one looks at makes room, too.
#[test]
fn pause_for_in_a_full_map_fails_only_if_every_key_is_paused_or_has_waiters() {
    const KEYS: u64 = 1000;
    let (chats, clock) = chats(KEYS as usize);
    for key in 0..KEYS {
        let time = if key == 700 { SECOND } else { 5 * SECOND };
        chats.key(&key).pause_for(time).unwrap();
    }
    let refused = chats.key(&KEYS).pause_for(SECOND).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooManyKeys);
    assert!(chats.key(&KEYS).is_open());
    // One that is paused already needs no room.
    chats.key(&3).pause_for(9 * SECOND).unwrap();
    let mut waiting = Waiter::parked(chats.key(&700).acquire());
    clock.advance(SECOND);
    // Its waiter was released, and has not passed yet.
    assert!(chats.key(&KEYS).pause_for(SECOND).is_err());
    waiting.granted();
    chats.key(&KEYS).pause_for(SECOND).unwrap();
    assert!(!chats.key(&KEYS).is_open() && chats.key(&700).is_open());
    assert_eq!(chats.len(), KEYS as usize);
    let paused = (0..KEYS).filter(|key| !chats.key(key).is_open());
    assert_eq!(paused.count(), 999);
}

#[test]
fn pause_for_ever_is_kept_until_it_is_opened() {
    let (chats, clock) = chats(1);
    chats.key(&1).pause_for(Duration::MAX).unwrap();
    let mut waiting = Waiter::parked(Arc::clone(&chats).key_owned(1).acquire());
    clock.advance(Duration::MAX);
    assert!(waiting.is_pending());
    let refused = chats.key(&2).pause_for(SECOND).unwrap_err();
    assert_eq!(
        (refused.kind(), refused.retry_after()),
        (ErrorKind::TooManyKeys, None)
    );
    chats.key(&1).open();
    waiting.granted();
    chats.key(&2).pause_for(SECOND).unwrap();
    assert_eq!(chats.len(), 1);
}

#[test]
fn retain_drops_a_pause_without_waiters() {
    let (chats, _clock) = chats(10);
    chats.key(&1).pause_for(SECOND).unwrap();
    chats.key(&2).pause_for(SECOND).unwrap();
    let waiting = Waiter::parked(chats.key(&2).acquire());
    chats.shrink();
    assert_eq!(chats.len(), 2);
    chats.retain(|_| false);
    assert_eq!((chats.len(), chats.key(&1).is_open()), (1, true));
    assert!(!chats.key(&2).is_open());
    drop(waiting);
}

#[test]
fn close_refuses_waiters_newcomers_and_pauses() {
    let (chats, clock) = chats(10);
    chats.key(&1).pause_for(SECOND).unwrap();
    let mut waiting: Vec<_> = (0..20)
        .map(|_| Waiter::parked(chats.key(&1).acquire()))
        .collect();
    chats.close();
    for waiter in &mut waiting {
        assert_eq!((waiter.wakes(), waiter.refused()), (1, ErrorKind::Closed));
    }
    // The gate of the key is open, and still there.
    clock.advance(SECOND);
    for key in 0..3 {
        let key = chats.key(&key);
        assert_eq!(key.try_acquire().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(Waiter::new(key.acquire()).refused(), ErrorKind::Closed);
        assert_eq!(key.pause_for(SECOND).unwrap_err().kind(), ErrorKind::Closed);
    }
    assert!(chats.is_closed());
}

#[test]
fn key_of_gates_is_a_throttle_that_any_cost_passes() {
    let (chats, _clock) = chats(10);
    let slots = Semaphore::new(1);
    let ((), slot) = all((chats.key(&1), &slots)).try_acquire().unwrap();
    drop(slot);
    let key = Arc::clone(&chats).key_owned(1);
    assert_eq!(
        (Weighted::max_units(&key), key.chunk_units()),
        (u64::MAX, u64::MAX)
    );
    key.cost(u64::MAX).try_acquire().unwrap();
    key.pause_for(SECOND).unwrap();
    assert!(key.enter_now().is_none() && key.cost(0).try_acquire().is_err());
    assert_eq!(
        format!("{chats:?}"),
        "Keyed { open: true, max_keys: 10, len: 1, .. }"
    );
}

const KEYS: u32 = 8;
const MAX_KEYS: usize = 4;

type Wait = Waiting<<Key<'static, Gate, u64> as Throttle>::Enter>;

/// A naive model: the end of each pause, and the waiters.
#[derive(Default)]
struct Model {
    now: Duration,
    until: [Duration; KEYS as usize],
    waiters: Vec<(u64, bool, Waiter<Wait>)>,
}

impl Model {
    fn is_paused(&self, key: u64) -> bool {
        self.until[key as usize] > self.now
    }

    fn in_use(&self) -> BTreeSet<u64> {
        let paused = (0..KEYS.into()).filter(|key| self.is_paused(*key));
        let waited_for = self.waiters.iter().map(|(key, ..)| *key);
        paused.chain(waited_for).collect()
    }

    fn release(&mut self) {
        let (now, until) = (self.now, self.until);
        for (key, is_released, _) in &mut self.waiters {
            *is_released |= until[*key as usize] <= now;
        }
    }
}

#[test]
fn pause_for_at_random_does_what_a_list_of_pauses_does() {
    for seed in 0..60 {
        let (chats, clock) = chats(MAX_KEYS);
        let (mut random, mut model) = (Random::new(seed), Model::default());
        for _ in 0..200 {
            let key = u64::from(random.below(KEYS));
            let handle = Arc::clone(&chats).key_owned(key);
            match random.below(10) {
                0..3 => {
                    let time = random.below(5) * SECOND;
                    let in_use = model.in_use();
                    let has_room = in_use.contains(&key) || in_use.len() < MAX_KEYS;
                    let paused = handle.pause_for(time);
                    assert_eq!(paused.is_ok(), has_room || time.is_zero());
                    if paused.is_ok() {
                        let until = &mut model.until[key as usize];
                        *until = (*until).max(model.now + time);
                    }
                }
                3 => {
                    handle.open();
                    model.until[key as usize] = model.now;
                    model.release();
                }
                4..6 => {
                    let mut waiter = Waiter::new(handle.acquire());
                    let waits = waiter.is_pending();
                    assert_eq!(waits, model.is_paused(key));
                    if waits {
                        model.waiters.push((key, false, waiter));
                    }
                }
                6 => {
                    let time = random.below(3) * SECOND;
                    clock.advance(time);
                    model.now += time;
                    model.release();
                }
                7 if !model.waiters.is_empty() => {
                    let all = u32::try_from(model.waiters.len()).unwrap();
                    let (_, is_released, mut waiter) =
                        model.waiters.remove(random.below(all) as usize);
                    if is_released {
                        assert_eq!(waiter.poll(), Poll::Ready(Ok(())));
                    } else {
                        assert!(waiter.is_pending());
                    }
                }
                8 => chats.shrink(),
                _ => {
                    let left = model.until[key as usize].saturating_sub(model.now);
                    let left = Some(left).filter(|left| !left.is_zero());
                    let refused = handle.try_acquire().err();
                    assert_eq!(refused.and_then(|error| error.retry_after()), left);
                }
            }
            assert!(chats.len() <= MAX_KEYS);
            assert_eq!(chats.keys().collect::<BTreeSet<_>>(), model.in_use());
        }
    }
}

/// Keys are paused, opened, dropped and waited for on many threads, in a map with room for two. A pause holds until its
/// thread ends it, and no wait is forgotten.
#[test]
fn pause_for_on_many_threads_holds_until_it_is_opened() {
    const ROUNDS: u64 = 2_000;
    let ((chats, _clock), slots) = (chats(2), Semaphore::new(1));
    // Odd while the key is paused.
    let pauses: [AtomicU64; 3] = Default::default();
    let running = AtomicUsize::new(pauses.len());
    let pause_of = &|key: u64| pauses[key as usize].load(SeqCst);
    thread::scope(|scope| {
        let (chats, slots, running, pauses) = (&chats, &slots, &running, &pauses);
        for key in 0..pauses.len() as u64 {
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let chat = chats.key(&key);
                    if chat.pause_for(Duration::MAX).is_ok() {
                        pauses[key as usize].fetch_add(1, SeqCst);
                        for _ in 0..10 {
                            assert!(!chat.is_open() && chat.try_acquire().is_err());
                        }
                        pauses[key as usize].fetch_add(1, SeqCst);
                        chat.open();
                    }
                }
                running.fetch_sub(1, SeqCst);
            });
        }
        for thread in 0..3 {
            scope.spawn(move || {
                let mut random = Random::new(thread);
                while running.load(SeqCst) > 0 {
                    let key = u64::from(random.below(3));
                    let (chat, pause) = (chats.key(&key), pause_of(key));
                    match random.below(3) {
                        0 => drop(chat.before(slots).acquire().wait().unwrap()),
                        1 => chat.acquire().wait().unwrap(),
                        _ => {
                            drop(Waiter::new(chat.before(slots).acquire()).poll());
                            continue;
                        }
                    }
                    let in_a_pause = pause % 2 == 1 && pause_of(key) == pause;
                    assert!(!in_a_pause, "admitted in a pause");
                    chats.shrink();
                }
            });
        }
    });
    chats.shrink();
    assert_eq!((chats.len(), slots.available_permits()), (0, 1));
}
