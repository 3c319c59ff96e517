//! No call on one key reaches another one, whatever is done to the semaphore of a permit, and whatever
//! is kept of it.

use std::sync::{Arc, Weak};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use tollgate::{ErrorKind, Keyed, OwnedPermit, Semaphore};

use crate::support::cases::cases;
use crate::support::{Waiter, kind};

const PERMITS: usize = 2;

/// The keys to which anything is done, and those that only come and go.
const MEDDLED: u32 = 3;
const INNOCENT: u32 = 6;

/// Something that a holder of a permit, or of what it has led to, can do.
#[derive(Clone, Debug)]
enum Step {
    Acquire(u32),
    Release(Index),
    /// Wait, and leave again at once or with the next release.
    Wait(u32, bool),
    Close(Index),
    SetPermits(Index, usize),
    AddPermits(Index, usize),
    Forget(Index),
    KeepArc(Index),
    KeepWeak(Index),
    /// Acquire with what was kept.
    Use(Index),
    Leak(Index),
    LetGo(Index),
    Shrink,
    Retain(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let any = any::<Index>;
    prop_oneof![
        8 => (0..INNOCENT).prop_map(Step::Acquire),
        4 => any().prop_map(Step::Release),
        2 => (0..INNOCENT, proptest::bool::ANY).prop_map(|(key, stays)| Step::Wait(key, stays)),
        2 => any().prop_map(Step::Close),
        1 => (any(), 0..4_usize).prop_map(|(permit, to)| Step::SetPermits(permit, to)),
        1 => (any(), 0..4_usize).prop_map(|(permit, by)| Step::AddPermits(permit, by)),
        1 => any().prop_map(Step::Forget),
        2 => any().prop_map(Step::KeepArc),
        2 => any().prop_map(Step::KeepWeak),
        3 => any().prop_map(Step::Use),
        1 => any().prop_map(Step::Leak),
        3 => any().prop_map(Step::LetGo),
        1 => Just(Step::Shrink),
        1 => (0..INNOCENT).prop_map(Step::Retain),
    ]
}

enum Kept {
    Arc(Arc<Semaphore>),
    Weak(Weak<Semaphore>),
}

#[derive(Default)]
struct World {
    permits: Vec<(u32, OwnedPermit)>,
    kept: Vec<Kept>,
}

impl World {
    fn held(&self, key: u32) -> usize {
        let of_key = self.permits.iter().filter(|(other, _)| *other == key);
        of_key.count()
    }

    /// Looks a permit of a key up to which anything may be done.
    fn meddled(&self, index: &Index) -> Option<usize> {
        let all = 0..self.permits.len();
        let all: Vec<usize> = all.filter(|at| self.permits[*at].0 < MEDDLED).collect();
        (!all.is_empty()).then(|| *index.get(&all))
    }

    fn semaphore(&self, index: &Index) -> Option<&Arc<Semaphore>> {
        let at = self.meddled(index)?;
        Some(self.permits[at].1.semaphore())
    }

    fn go(&mut self, users: &Arc<Keyed<u32, Semaphore>>, step: &Step) {
        match step {
            Step::Acquire(key) => {
                let held = self.held(*key);
                let tried = users.key(key).try_acquire();
                if *key >= MEDDLED {
                    match &tried {
                        Ok(_) => assert!(held < PERMITS),
                        Err(error) if error.kind() == ErrorKind::TooManyKeys => assert_eq!(held, 0),
                        Err(error) => {
                            assert_eq!((error.kind(), held), (ErrorKind::NoPermits, PERMITS));
                        }
                    }
                }
                self.permits.extend(tried.ok().map(|permit| (*key, permit)));
            }
            Step::Release(index) => {
                if !self.permits.is_empty() {
                    drop(self.permits.swap_remove(index.index(self.permits.len())));
                }
            }
            Step::Wait(key, stays) => {
                let mut waiter = Waiter::new(Arc::clone(users).key_owned(*key).acquire());
                let polled = waiter.poll();
                if let std::task::Poll::Ready(Ok(permit)) = polled {
                    self.permits.push((*key, permit));
                } else if *stays && *key >= MEDDLED && self.held(*key) == PERMITS {
                    let of_key = |(other, _): &(u32, OwnedPermit)| other == key;
                    let at = self.permits.iter().position(of_key);
                    drop(self.permits.swap_remove(at.expect("it is held")));
                    self.permits.push((*key, waiter.granted()));
                }
            }
            Step::Close(index) => {
                self.semaphore(index).into_iter().for_each(|it| it.close());
            }
            Step::SetPermits(index, to) => {
                (self.semaphore(index).into_iter()).for_each(|it| it.set_permits(*to));
            }
            Step::AddPermits(index, by) => {
                (self.semaphore(index).into_iter()).for_each(|it| it.add_permits(*by));
            }
            Step::Forget(index) => {
                if let Some(at) = self.meddled(index) {
                    self.permits.swap_remove(at).1.forget();
                }
            }
            Step::KeepArc(index) => {
                let kept = self.semaphore(index).map(|it| Kept::Arc(Arc::clone(it)));
                self.kept.extend(kept);
            }
            Step::KeepWeak(index) => {
                let kept = self
                    .semaphore(index)
                    .map(|it| Kept::Weak(Arc::downgrade(it)));
                self.kept.extend(kept);
            }
            Step::Use(index) => {
                if let Some(semaphore) = self.used(index) {
                    let permit = semaphore.try_acquire_owned();
                    self.permits.extend(permit.ok().map(|permit| (0, permit)));
                }
            }
            Step::Leak(index) => {
                if let Some(semaphore) = self.used(index) {
                    semaphore
                        .try_acquire()
                        .into_iter()
                        .for_each(std::mem::forget);
                    semaphore.close();
                }
            }
            Step::LetGo(index) => {
                if !self.kept.is_empty() {
                    self.kept.swap_remove(index.index(self.kept.len()));
                }
            }
            Step::Shrink => users.shrink(),
            Step::Retain(kept) => users.retain(|key| key == kept),
        }
    }

    fn used(&self, index: &Index) -> Option<Arc<Semaphore>> {
        if self.kept.is_empty() {
            return None;
        }
        match index.get(&self.kept) {
            Kept::Arc(semaphore) => Some(Arc::clone(semaphore)),
            Kept::Weak(semaphore) => semaphore.upgrade(),
        }
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn calls_on_one_key_never_reach_another(steps in vec(step(), 1..150)) {
        let users = Arc::new(Keyed::<u32, _>::semaphores(PERMITS).max_keys(4));
        let mut world = World::default();
        for (at, step) in steps.iter().enumerate() {
            world.go(&users, step);
            for key in MEDDLED..INNOCENT {
                let free = (PERMITS - world.held(key)) as u64;
                prop_assert_eq!(users.key(&key).snapshot().available, free);
            }
            // One that never came before.
            let new = 1000 + at as u32;
            match users.key(&new).try_acquire_many(PERMITS as u32) {
                Ok(permit) => {
                    let semaphore = permit.semaphore();
                    prop_assert_eq!(semaphore.permits(), PERMITS);
                    prop_assert_eq!(Arc::strong_count(semaphore), 2);
                    prop_assert_eq!(kind(users.key(&new).try_acquire()), ErrorKind::NoPermits);
                }
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::TooManyKeys),
            }
        }
    }
}

/// Seen from outside: of 19,000 others 1,604 were refused.
#[test]
fn close_on_semaphore_of_a_permit_closes_no_other_key() {
    let users = Keyed::<u64, _>::semaphores(2);
    for closed in 0..200 {
        users
            .key(&closed)
            .try_acquire()
            .unwrap()
            .semaphore()
            .close();
    }
    for other in 200..19_200 {
        drop(users.key(&other).try_acquire_many(2).unwrap());
    }
}

/// A `Weak` or an `Arc` of it: what is done with that is done to this key, as long as it is kept.
#[test]
fn key_whose_semaphore_is_kept_is_in_use() {
    let users = Keyed::<u32, _>::semaphores(1).max_keys(1);
    let permit = users.key(&1).try_acquire().unwrap();
    let weak = Arc::downgrade(permit.semaphore());
    drop(permit);
    assert_eq!(kind(users.key(&2).try_acquire()), ErrorKind::TooManyKeys);
    users.shrink();
    let semaphore = weak.upgrade().unwrap();
    drop(weak);
    assert_eq!(kind(users.key(&2).try_acquire()), ErrorKind::TooManyKeys);
    let permit = semaphore.try_acquire_owned().unwrap();
    assert_eq!(kind(users.key(&1).try_acquire()), ErrorKind::NoPermits);
    drop(permit);
    drop(users.key(&2).try_acquire().unwrap());
}

#[test]
fn a_key_of_which_a_permit_was_leaked_keeps_what_is_left() {
    let users = Keyed::<u32, _>::semaphores(2);
    let permit = users.key(&1).try_acquire().unwrap();
    let semaphore = Arc::clone(permit.semaphore());
    drop(permit);
    std::mem::forget(semaphore.try_acquire().unwrap());
    drop(semaphore);
    users.shrink();
    assert_eq!(users.key(&1).snapshot().available, 1);
}
