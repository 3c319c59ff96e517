//! No call on one key affects another one, whatever happens to the semaphore of a permit and to
//! references to it.

use std::sync::{Arc, Weak};
use std::task::Poll;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::semaphore::OwnedPermit;
use tollgate::{ErrorKind, Keyed, Semaphore};

use crate::support::cases::cases;
use crate::support::scenarios::{Names, Words, at_random, call};
use crate::support::{Waiter, kind};

const PERMITS: usize = 2;

/// The keys that calls act on, and those that only come and go.
const MEDDLED: u32 = 3;
const INNOCENT: u32 = 6;

/// The actions of a holder of a permit, or of a reference obtained through it; `use` and `leak` act on the
/// reference. A key that stays waits until the next release.
const STEPS: &str = "8 acquire 0..6, 4 release #, 2 wait 0..6 0..2, 2 close #, 1 set # 0..4, 1 add # 0..4, 1 forget #,
    2 keep #, 2 keep-weak #, 3 use #, 1 leak #, 3 let-go #, 1 shrink, 1 retain 0..6";

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

    /// Returns the position of a permit whose key calls may act on.
    fn meddled(&self, words: &mut Words<'_>) -> Result<usize, TestCaseError> {
        let all = 0..self.permits.len();
        let all: Vec<usize> = all.filter(|at| self.permits[*at].0 < MEDDLED).collect();
        Ok(all[Names::AtRandom.choose(words, &all)?])
    }

    fn semaphore(&self, words: &mut Words<'_>) -> Result<&Arc<Semaphore>, TestCaseError> {
        Ok(self.permits[self.meddled(words)?].1.semaphore())
    }

    fn go(
        &mut self,
        users: &Arc<Keyed<u32, Semaphore>>,
        call: &str,
        words: &mut Words<'_>,
    ) -> Result<(), TestCaseError> {
        let any = Names::AtRandom;
        match call {
            "acquire" => {
                let key = words.parse();
                let held = self.held(key);
                let tried = users.key(&key).try_acquire();
                if key >= MEDDLED {
                    match &tried {
                        Ok(_) => assert!(held < PERMITS),
                        Err(error) if error.kind() == ErrorKind::TooManyKeys => assert_eq!(held, 0),
                        Err(error) => {
                            assert_eq!((error.kind(), held), (ErrorKind::NoPermits, PERMITS));
                        }
                    }
                }
                self.permits.extend(tried.ok().map(|permit| (key, permit)));
            }
            "release" => {
                let which = any.choose(words, &self.permits)?;
                drop(self.permits.swap_remove(which));
            }
            "wait" => {
                let (key, stays) = (words.parse(), words.parse::<usize>() == 1);
                let mut waiter = Waiter::new(Arc::clone(users).key_owned(key).acquire());
                if let Poll::Ready(Ok(permit)) = waiter.poll() {
                    self.permits.push((key, permit));
                } else if stays && key >= MEDDLED && self.held(key) == PERMITS {
                    let of_key = |(other, _): &(u32, OwnedPermit)| *other == key;
                    let at = self.permits.iter().position(of_key);
                    drop(self.permits.swap_remove(at.expect("it is held")));
                    self.permits.push((key, waiter.granted()));
                }
            }
            "close" => self.semaphore(words)?.close(),
            "set" => self.semaphore(words)?.set_permits(words.parse()),
            "add" => self.semaphore(words)?.add_permits(words.parse()),
            "forget" => {
                let which = self.meddled(words)?;
                self.permits.swap_remove(which).1.forget();
            }
            "keep" => {
                let semaphore = Arc::clone(self.semaphore(words)?);
                self.kept.push(Kept::Arc(semaphore));
            }
            "keep-weak" => {
                let semaphore = Arc::downgrade(self.semaphore(words)?);
                self.kept.push(Kept::Weak(semaphore));
            }
            "use" => {
                let permit = self.used(words)?.try_acquire_owned();
                self.permits.extend(permit.ok().map(|permit| (0, permit)));
            }
            "leak" => {
                let semaphore = self.used(words)?;
                std::mem::forget(semaphore.try_acquire());
                semaphore.close();
            }
            "let-go" => drop(self.kept.swap_remove(any.choose(words, &self.kept)?)),
            "shrink" => users.shrink(),
            "retain" => {
                let kept: u32 = words.parse();
                users.retain(|key| *key == kept);
            }
            _ => panic!("no call: {call:?}"),
        }
        Ok(())
    }

    /// Returns the reference, if it still exists.
    fn used(&self, words: &mut Words<'_>) -> Result<Arc<Semaphore>, TestCaseError> {
        let kept = match &self.kept[Names::AtRandom.choose(words, &self.kept)?] {
            Kept::Arc(semaphore) => Some(Arc::clone(semaphore)),
            Kept::Weak(semaphore) => semaphore.upgrade(),
        };
        kept.ok_or_else(|| TestCaseError::reject("it is gone"))
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn calls_on_one_key_never_reach_another(calls in at_random(STEPS, 150)) {
        let users = Arc::new(Keyed::<u32, _>::semaphores(PERMITS).max_keys(4));
        let mut world = World::default();
        for (at, text) in calls.iter().enumerate() {
            call(text, |name, words| world.go(&users, name, words))?;
            for key in MEDDLED..INNOCENT {
                let free = (PERMITS - world.held(key)) as u64;
                prop_assert_eq!(users.key(&key).snapshot().available, free);
            }
            // A key that never came before.
            let new = 1000 + at as u32;
            match users.key(&new).try_acquire_many(PERMITS as u64) {
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

/// A `Weak` or an `Arc` of it: actions on the reference affect this key, as long as it exists.
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
