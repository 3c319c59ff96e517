//! A map and its model, a limiter of its own for each key, to which the same is done.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use tollgate::keyed::Key;
use tollgate::{
    AcquireError, Algorithm, Charge, Clock, ErrorKind, Keyed, ManualClock, Oversize, Quota,
    RateLimiter, Reservation, Throttle, Waiting, WhenFull,
};

use crate::support::Waiter;

pub(crate) type Users = Keyed<u32, RateLimiter>;

/// What happens next. An index picks one of those that are there.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Try(u32, u64),
    Acquire(u32, u64),
    Reserve(u32, u64),
    Poll(Index),
    Drop(Index),
    Advance(u64),
    Charge(u32, u64),
    Refund(Index),
    Settle(Index, u64),
    SetQuota(usize),
    Shrink,
    Close,
}

pub(crate) fn step(keys: u32) -> impl Strategy<Value = Step> {
    let any = any::<Index>;
    let key = 0..keys;
    prop_oneof![
        8 => (key.clone(), 0..5_u64).prop_map(|(key, cost)| Step::Try(key, cost)),
        4 => (key.clone(), 0..5_u64).prop_map(|(key, cost)| Step::Acquire(key, cost)),
        1 => (key.clone(), 1..4_u64).prop_map(|(key, cost)| Step::Reserve(key, cost)),
        2 => any().prop_map(Step::Poll),
        2 => any().prop_map(Step::Drop),
        3 => prop_oneof![0..2_000_000_000_u64, Just(333_333_333), Just(100_000_000_000)]
            .prop_map(Step::Advance),
        1 => (key, 0..9_u64).prop_map(|(key, cost)| Step::Charge(key, cost)),
        3 => any().prop_map(Step::Refund),
        2 => (any(), 0..8_u64).prop_map(|(charge, actual)| Step::Settle(charge, actual)),
        1 => (0..4_usize).prop_map(Step::SetQuota),
        1 => Just(Step::Shrink),
    ]
}

enum Asker {
    Future(
        Waiter<Waiting<<Key<'static, RateLimiter, u32> as Throttle>::Enter>>,
        Waiter<Waiting<<Arc<RateLimiter> as Throttle>::Enter>>,
    ),
    Reserved(Box<(Waiting<Reservation>, Waiting<Reservation>)>),
}

/// The map refuses only what is too much for its key.
pub(crate) struct World {
    clock: ManualClock,
    pub(crate) users: Arc<Users>,
    max_keys: usize,
    /// Where the quotas of single keys come from, if they have some: that of the key, moved on by
    /// this.
    moved: Option<Arc<AtomicUsize>>,
    quotas: [Quota; 4],
    quota: Quota,
    algorithm: Algorithm,
    oversize: Oversize,
    single: HashMap<u32, Arc<RateLimiter>>,
    askers: Vec<Asker>,
    charges: Vec<(u32, Charge, Charge)>,
}

impl World {
    /// By some algorithm, which all of these quotas fit; each key has one of its own, or all the first.
    pub(crate) fn new(
        algorithm: Algorithm,
        quotas: [Quota; 4],
        max_keys: usize,
        own: bool,
        oversize: Oversize,
    ) -> Self {
        let clock = Clock::manual();
        clock.advance(Duration::from_nanos(123_456_789));
        let moved = own.then(|| Arc::new(AtomicUsize::new(0)));
        let quota = quotas[0];
        let mut users = Users::new(
            RateLimiter::new(quota)
                .algorithm(algorithm)
                .oversize(oversize)
                .clock(&clock),
        )
        .max_keys(max_keys)
        .when_full(WhenFull::Reject);
        if let Some(moved) = &moved {
            let moved = Arc::clone(moved);
            users = users.quotas(move |key| {
                quotas[(*key as usize + moved.load(Ordering::Relaxed)) % quotas.len()]
            });
        }
        Self {
            clock,
            users: Arc::new(users),
            max_keys,
            moved,
            quotas,
            quota,
            algorithm,
            oversize,
            single: HashMap::new(),
            askers: Vec::new(),
            charges: Vec::new(),
        }
    }

    fn quota_of(&self, key: u32) -> Quota {
        match &self.moved {
            Some(moved) => self.quotas[(key as usize + moved.load(Ordering::Relaxed)) % 4],
            None => self.quota,
        }
    }

    /// The limiter of a key, which goes by the quota that the key has now.
    fn single(&mut self, key: u32) -> Arc<RateLimiter> {
        let quota = self.quota_of(key);
        let limiter = self.single.entry(key).or_insert_with(|| {
            let limiter = RateLimiter::new(quota)
                .algorithm(self.algorithm)
                .oversize(self.oversize);
            Arc::new(limiter.clock(&self.clock))
        });
        if limiter.quota() != quota {
            limiter.set_quota(quota);
        }
        Arc::clone(limiter)
    }

    fn key(&self, key: u32) -> Key<'static, RateLimiter, u32> {
        Arc::clone(&self.users).key_owned(key)
    }

    /// Both say the same, unless there is no room.
    fn keep(
        &mut self,
        key: u32,
        ours: Result<Charge, AcquireError>,
        model: impl FnOnce(&RateLimiter) -> Result<Charge, AcquireError>,
    ) {
        if is_without_room(&ours) {
            assert_eq!(self.users.len(), self.max_keys);
            return;
        }
        match (ours, model(&self.single(key))) {
            (Ok(ours), Ok(model)) => {
                assert_eq!((ours.cost(), ours.at()), (model.cost(), model.at()));
                assert_eq!(
                    self.users.key(&key).decision(&ours),
                    self.single(key).decision(&model)
                );
                self.charges.push((key, ours, model));
            }
            (ours, model) => assert_eq!(ours.map(drop), model.map(drop)),
        }
    }

    pub(crate) fn go(&mut self, step: &Step) {
        match step {
            Step::Try(key, cost) => {
                let tried = self.users.key(key).try_acquire_many(*cost);
                self.keep(*key, tried, |model| model.try_acquire_many(*cost));
            }
            Step::Acquire(key, cost) => {
                let mut ours = Waiter::new(self.key(*key).acquire_many(*cost));
                match ours.poll() {
                    Poll::Ready(output) => {
                        self.keep(*key, output, |model| model.acquire_many(*cost).wait());
                    }
                    Poll::Pending => {
                        let model = self.single(*key).cost_owned(*cost).acquire();
                        self.askers.push(Asker::Future(ours, Waiter::parked(model)));
                    }
                }
            }
            Step::Reserve(key, cost) => {
                let ours = self.key(*key).reserve_many(*cost);
                if is_without_room(&ours) {
                    return;
                }
                match (ours, self.single(*key).reserve_many(*cost)) {
                    (Ok(ours), Ok(model)) => {
                        assert_eq!(ours.delay(), model.delay());
                        self.askers.push(Asker::Reserved(Box::new((ours, model))));
                    }
                    (ours, model) => assert_eq!(ours.map(drop), model.map(drop)),
                }
            }
            Step::Poll(index) => self.poll(index),
            Step::Drop(index) => {
                if !self.askers.is_empty() {
                    let asker = self.askers.remove(index.index(self.askers.len()));
                    drop(asker);
                }
            }
            Step::Advance(nanos) => self.clock.advance(Duration::from_nanos(*nanos)),
            Step::Charge(key, cost) => {
                let charged = self.users.key(key).charge(*cost);
                self.keep(*key, charged, |model| Ok(model.charge(*cost)));
            }
            Step::Refund(index) => {
                if let Some((key, ours, model)) = self.take_charge(index) {
                    self.users.key(&key).refund(ours);
                    self.single(key).refund(model);
                }
            }
            Step::Settle(index, actual) => {
                if let Some((key, ours, model)) = self.take_charge(index) {
                    let settled = self.users.key(&key).settle(ours, *actual);
                    match settled {
                        Ok(()) => self.single(key).settle(model, *actual),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::TooManyKeys),
                    }
                }
            }
            Step::SetQuota(to) => self.set_quota(*to),
            Step::Shrink => self.users.shrink(),
            Step::Close => {
                self.users.close();
                for limiter in self.single.values() {
                    limiter.close();
                }
            }
        }
    }

    fn take_charge(&mut self, index: &Index) -> Option<(u32, Charge, Charge)> {
        let len = self.charges.len();
        (len > 0).then(|| self.charges.remove(index.index(len)))
    }

    fn poll(&mut self, index: &Index) {
        if self.askers.is_empty() {
            return;
        }
        let at = index.index(self.askers.len());
        if let Asker::Reserved(both) = &self.askers[at] {
            assert_eq!(both.0.delay(), both.1.delay());
        }
        if let Asker::Future(ours, model) = &mut self.askers[at] {
            assert_eq!(ours.wakes(), model.wakes());
            match (ours.poll(), model.poll()) {
                (Poll::Pending, Poll::Pending) => {}
                (Poll::Ready(Ok(ours)), Poll::Ready(Ok(model))) => {
                    assert_eq!((ours.cost(), ours.at()), (model.cost(), model.at()));
                    self.askers.remove(at);
                }
                (Poll::Ready(ours), Poll::Ready(model)) => {
                    assert_eq!(ours.map(drop), model.map(drop));
                    self.askers.remove(at);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn set_quota(&mut self, to: usize) {
        match &self.moved {
            Some(moved) => {
                moved.fetch_add(to, Ordering::Relaxed);
                self.users.requota_all();
                let keys: Vec<u32> = self.single.keys().copied().collect();
                for key in keys {
                    self.single(key);
                }
            }
            None => {
                self.quota = self.quotas[to];
                self.users.set_quota(self.quota);
                for limiter in self.single.values() {
                    limiter.set_quota(self.quota);
                }
            }
        }
    }

    pub(crate) fn compare(&mut self) {
        let keys: Vec<u32> = self.single.keys().copied().collect();
        assert!(self.users.len() <= self.max_keys);
        for key in keys {
            let (ours, single) = (self.key(key), self.single(key));
            for cost in [0, 1, 3, 20] {
                assert_eq!(
                    ours.peek_many(cost),
                    single.peek_many(cost),
                    "{cost} of {key}"
                );
            }
            assert_eq!(ours.snapshot().available, single.snapshot().available);
            assert_eq!(ours.snapshot().waiting, single.snapshot().waiting);
            assert_eq!(ours.quota(), single.quota());
        }
    }
}

fn is_without_room<T>(result: &Result<T, AcquireError>) -> bool {
    let error = result.as_ref().err();
    error.is_some_and(|error| error.kind() == ErrorKind::TooManyKeys)
}
