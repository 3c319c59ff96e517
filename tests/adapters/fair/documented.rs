//! The bounds that the documentation of the queue states, after random steps. Nothing here knows how
//! the queue reaches them.

use std::sync::Arc;
use std::task::Poll;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use tollgate::fair::{Class, ClassHandle, FairPermit, FairQueue, Share};
use tollgate::throttle::Weighted;
use tollgate::{Semaphore, Throttle, Waiting};

use crate::support::Waiter;
use crate::support::cases::cases;

const PERMITS: u64 = 4;
/// So that what a class gets per weight is whole.
const SCALE: u64 = 4;

type Permit = FairPermit<Arc<Semaphore>, usize>;
type Wait = Waiter<Waiting<<ClassHandle<Arc<Semaphore>, usize> as tollgate::Throttle>::Enter>>;

#[derive(Clone, Debug)]
enum Step {
    Enter(usize, u64),
    GiveUp(Index),
    Release(Index),
    RollBack(Index),
    Settle(Index, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..4_usize, 1..=PERMITS).prop_map(|(class, cost)| Step::Enter(class, cost)),
        1 => any::<Index>().prop_map(Step::GiveUp),
        3 => any::<Index>().prop_map(Step::Release),
        1 => any::<Index>().prop_map(Step::RollBack),
        1 => (any::<Index>(), 0..=PERMITS).prop_map(|(index, used)| Step::Settle(index, used)),
    ]
}

/// The priority and the weight of each class.
fn classes() -> impl Strategy<Value = Vec<(u8, u64)>> {
    prop::collection::vec((0..2_u8, prop::sample::select(vec![1, 2, 4])), 2..5)
}

/// A wait or a permit of a class, and its cost.
struct Of<T> {
    class: usize,
    cost: u64,
    it: T,
}

/// A queue, its callers, and what its classes were given.
struct Run {
    classes: Vec<(u8, u64)>,
    queue: FairQueue<Arc<Semaphore>, usize>,
    waiting: Vec<Of<Wait>>,
    inside: Vec<Of<Permit>>,
    /// How many permits each class was given from the queue in a step.
    given: Vec<u64>,
    /// For each two classes, how far the first one is ahead since both have waiters, in parts of
    /// [`SCALE`].
    ahead: Vec<Vec<i64>>,
}

impl Run {
    fn new(classes: Vec<(u8, u64)>, share: Share) -> Self {
        let settings = classes.clone();
        let of = move |key: &usize| {
            let (priority, weight) = settings[*key];
            let weight = u32::try_from(weight).unwrap();
            Class::new().priority(priority).weight(weight)
        };
        let semaphore = Arc::new(Semaphore::new(PERMITS as usize));
        let count = classes.len();
        Self {
            classes,
            queue: FairQueue::new(semaphore).classes(of).share(share),
            waiting: Vec::new(),
            inside: Vec::new(),
            given: vec![0; count],
            ahead: vec![vec![0; count]; count],
        }
    }

    /// Returns a cost per weight of a class.
    fn scaled(&self, class: usize, cost: u64) -> u64 {
        cost * SCALE / self.classes[class].1
    }

    fn waits(&self, class: usize) -> bool {
        self.waiting.iter().any(|of| of.class == class)
    }

    fn held(&self, class: usize) -> u64 {
        self.inside.iter().filter(|of| of.class == class).count() as u64
    }

    fn others(&self) -> std::ops::Range<usize> {
        0..self.classes.len()
    }

    fn charged(&mut self, class: usize, cost: u64) {
        let scaled = self.scaled(class, cost).cast_signed();
        for other in self.others() {
            self.ahead[class][other] += scaled;
            self.ahead[other][class] -= scaled;
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Enter(class, cost) => {
                let class = class % self.classes.len();
                let mut wait = Waiter::new(self.queue.class(class).acquire_many(cost));
                match wait.poll() {
                    // It is charged nothing.
                    Poll::Ready(permit) => self.inside.push(Of {
                        class,
                        cost,
                        it: permit.unwrap(),
                    }),
                    Poll::Pending => self.waiting.push(Of {
                        class,
                        cost,
                        it: wait,
                    }),
                }
            }
            Step::GiveUp(index) if !self.waiting.is_empty() => {
                self.waiting.remove(index.index(self.waiting.len()));
            }
            Step::Release(index) if !self.inside.is_empty() => {
                self.inside.remove(index.index(self.inside.len()));
            }
            Step::RollBack(index) if !self.inside.is_empty() => {
                let of = self.inside.remove(index.index(self.inside.len()));
                self.queue.class(of.class).rollback(of.it);
            }
            Step::Settle(index, used) if !self.inside.is_empty() => {
                let of = self.inside.remove(index.index(self.inside.len()));
                self.queue.class(of.class).settle(of.it, used);
            }
            _ => {}
        }
        self.given.fill(0);
        for mut of in std::mem::take(&mut self.waiting) {
            match of.it.poll() {
                Poll::Pending => self.waiting.push(of),
                Poll::Ready(permit) => {
                    let (class, cost) = (of.class, of.cost);
                    self.given[class] += 1;
                    self.charged(class, cost);
                    let it = permit.unwrap();
                    self.inside.push(Of { class, cost, it });
                }
            }
        }
    }

    /// Nobody of a lower priority was served while one of a higher one waits.
    fn check_priorities(&self) -> Result<(), TestCaseError> {
        for class in self.others().filter(|class| self.given[*class] > 0) {
            for other in self.others().filter(|other| self.waits(*other)) {
                prop_assert!(self.classes[other].0 <= self.classes[class].0);
            }
        }
        Ok(())
    }

    /// `held_i/w_i - held_j/w_j <= 1/w_i` for the class that was given the one permit.
    fn check_held(&self) -> Result<(), TestCaseError> {
        let sum: u64 = self.given.iter().sum();
        prop_assert!(sum <= 1);
        let Some(class) = self.given.iter().position(|given| *given > 0) else {
            return Ok(());
        };
        let held = |class: usize| self.scaled(class, self.held(class));
        let one = self.scaled(class, 1);
        for other in self.others().filter(|other| self.waits(*other)) {
            if self.classes[other].0 == self.classes[class].0 {
                prop_assert!(held(class) <= held(other) + one);
            }
        }
        Ok(())
    }

    /// `|W_i/w_i - W_j/w_j| <= cost_i/w_i + cost_j/w_j`.
    fn check_charged(&mut self) -> Result<(), TestCaseError> {
        for class in self.others() {
            for other in self.others() {
                let same = self.classes[class].0 == self.classes[other].0;
                if !same || !self.waits(class) || !self.waits(other) {
                    self.ahead[class][other] = 0;
                    continue;
                }
                let ahead = self.ahead[class][other];
                let most = self.scaled(class, PERMITS) + self.scaled(other, PERMITS);
                prop_assert!(ahead <= most.cast_signed(), "{ahead} of {most}");
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_class_that_gets_a_permit_is_ahead_of_no_other_by_more_than_that(
        classes in classes(),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut run = Run::new(classes, Share::ByConcurrency);
        for step in steps {
            let step = match step {
                Step::Enter(class, _) => Step::Enter(class, 1),
                step => step,
            };
            run.step(step);
            run.check_priorities()?;
            run.check_held()?;
        }
    }

    #[test]
    fn charges_of_classes_that_wait_differ_by_a_cost_of_each(
        classes in classes(),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut run = Run::new(classes, Share::ByCost);
        for step in steps {
            run.step(step);
            run.check_priorities()?;
            run.check_charged()?;
        }
    }
}
