//! Compositions of each size and of some nestings, as values of one type.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::vec::IntoIter;

use tollgate::{AcquireError, Throttle, TryThrottle, all};

use crate::support::scripted::{Log, Scripted, ScriptedPermit};

/// The permits of a composition, from left to right, or the reason of its refusal.
pub(super) type Entered = Result<Vec<ScriptedPermit>, AcquireError>;

/// A composition whose permits are flattened.
pub(super) struct Shape {
    pub(super) description: &'static str,
    pub(super) log: Log,
    /// From left to right.
    pub(super) parts: Vec<Scripted>,
    /// For each of these, the index of its part in the outermost composition.
    pub(super) outermost: Vec<usize>,
    inner: Rc<dyn Flattened>,
}

/// The names of the parts.
pub(super) const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The events of the first poll of a wait.
pub(super) struct Begun {
    /// The log after it.
    pub(super) events: Vec<String>,
    /// The events that undoing all entered parts adds.
    pub(super) undone: Vec<String>,
}

trait Flattened {
    fn enter(&self) -> Pin<Box<dyn Future<Output = Entered>>>;
    fn try_enter(&self) -> Entered;
    fn enter_now(&self) -> Option<Vec<ScriptedPermit>>;
    fn rollback(&self, permits: Vec<ScriptedPermit>);
}

impl Shape {
    fn new<T>(description: &'static str, composition: impl FnOnce(&[Scripted]) -> T) -> Self
    where
        T: TryThrottle<Permit: Leaves> + 'static,
    {
        let log = Log::default();
        let parts: Vec<_> = NAMES.iter().map(|name| log.part(name)).collect();
        let inner = Rc::new(composition(&parts));
        let mut outermost = Vec::new();
        let mut depth = 0;
        let mut part = 0;
        for character in description.chars() {
            match character {
                '(' => depth += 1,
                ')' => depth -= 1,
                ' ' if depth == 1 => part += 1,
                'a'..='f' => outermost.push(part),
                _ => {}
            }
        }
        Self {
            description,
            parts: parts[..outermost.len()].to_vec(),
            log,
            outermost,
            inner,
        }
    }

    /// Returns the events of the first poll when this part has to be waited for, and those before
    /// it need no wait.
    ///
    /// A part that needs no wait is entered without one. A nested composition that needs a wait is
    /// first entered as far as there is room, and undone; then it is awaited, and behaves like the
    /// outer one.
    pub(super) fn begun(&self, part: usize) -> Begun {
        let mut events = Vec::new();
        let mut numbers = [0; NAMES.len()];
        // The compositions around the part, each as its first part; the outermost is not tried.
        let letter = NAMES[part].chars().next().expect("it has a name");
        let mut around: Vec<usize> = Vec::new();
        let mut next = 0;
        for character in self.description.chars() {
            match character {
                '(' => around.push(next),
                ')' => drop(around.pop()),
                _ if character == letter => break,
                'a'..='f' => next += 1,
                _ => {}
            }
        }
        let mut begun = 0;
        for first in around.into_iter().skip(1).chain([part]) {
            for entered in begun..first {
                let (name, number) = (NAMES[entered], numbers[entered]);
                events.extend([format!("try {name}"), format!("in {name}{number}")]);
            }
            begun = first;
            for tried in first..part {
                let (name, number) = (NAMES[tried], numbers[tried]);
                events.extend([format!("try {name}"), format!("in {name}{number}")]);
            }
            for tried in (first..part).rev() {
                events.push(format!("undo {}{}", NAMES[tried], numbers[tried]));
                numbers[tried] += 1;
            }
        }
        events.push(format!("enter {}", NAMES[part]));
        let entered = (0..part).rev();
        let undone = entered.map(|entered| format!("undo {}{}", NAMES[entered], numbers[entered]));
        Begun {
            events,
            undone: undone.collect(),
        }
    }

    pub(super) fn enter(&self) -> Pin<Box<dyn Future<Output = Entered>>> {
        self.inner.enter()
    }

    pub(super) fn try_enter(&self) -> Entered {
        self.inner.try_enter()
    }

    pub(super) fn enter_now(&self) -> Option<Vec<ScriptedPermit>> {
        self.inner.enter_now()
    }

    pub(super) fn rollback(&self, permits: Vec<ScriptedPermit>) {
        self.inner.rollback(permits);
    }
}

impl<T: TryThrottle<Permit: Leaves> + 'static> Flattened for T {
    fn enter(&self) -> Pin<Box<dyn Future<Output = Entered>>> {
        let enter = Throttle::enter(self);
        Box::pin(async move { Ok(flat(enter.await?)) })
    }

    fn try_enter(&self) -> Entered {
        Ok(flat(TryThrottle::try_enter(self)?))
    }

    fn enter_now(&self) -> Option<Vec<ScriptedPermit>> {
        Throttle::enter_now(self).map(flat)
    }

    fn rollback(&self, permits: Vec<ScriptedPermit>) {
        Throttle::rollback(self, T::Permit::of(&mut permits.into_iter()));
    }
}

/// A permit, or a tuple of permits.
trait Leaves {
    fn put(self, into: &mut Vec<ScriptedPermit>);
    fn of(permits: &mut IntoIter<ScriptedPermit>) -> Self;
}

fn flat(permits: impl Leaves) -> Vec<ScriptedPermit> {
    let mut leaves = Vec::new();
    permits.put(&mut leaves);
    leaves
}

impl Leaves for ScriptedPermit {
    fn put(self, into: &mut Vec<ScriptedPermit>) {
        into.push(self);
    }

    fn of(permits: &mut IntoIter<ScriptedPermit>) -> Self {
        permits.next().expect("as many as there are parts")
    }
}

impl<L: Leaves> Leaves for Option<L> {
    fn put(self, into: &mut Vec<ScriptedPermit>) {
        if let Some(permit) = self {
            permit.put(into);
        }
    }

    fn of(permits: &mut IntoIter<ScriptedPermit>) -> Self {
        (!permits.as_slice().is_empty()).then(|| L::of(permits))
    }
}

macro_rules! leaves {
    ($($leaf:ident $value:ident)+) => {
        impl<$($leaf: Leaves),+> Leaves for ($($leaf,)+) {
            fn put(self, into: &mut Vec<ScriptedPermit>) {
                let ($($value,)+) = self;
                $($value.put(into);)+
            }

            fn of(permits: &mut IntoIter<ScriptedPermit>) -> Self {
                ($($leaf::of(permits),)+)
            }
        }
    };
}

leaves!(A a B b);
leaves!(A a B b C c);
leaves!(A a B b C c D d);
leaves!(A a B b C c D d E e);
leaves!(A a B b C c D d E e F f);

/// Each shape with its parts, from left to right.
macro_rules! shapes {
    ($($description:literal: $($part:ident)+ => $made:expr;)*) => {
        vec![$(
            Shape::new($description, |parts| {
                let mut parts = parts.iter().cloned();
                $(let $part = parts.next().expect("there are six");)+
                $made
            })
        ),*]
    };
}

/// Returns every size, and nestings on the left, on the right, on both sides, in the middle, and twice;
/// and a part in an `Option`.
pub(super) fn shapes() -> Vec<Shape> {
    shapes! {
        "(a b)": a b => all((a, b));
        "(a b c)": a b c => all((a, b, c));
        "(a b c d)": a b c d => all((a, b, c, d));
        "(a b c d e)": a b c d e => all((a, b, c, d, e));
        "(a b c d e f)": a b c d e f => all((a, b, c, d, e, f));
        "((a b) c)": a b c => all((all((a, b)), c));
        "(a (b c))": a b c => all((a, all((b, c))));
        "((a b c) (d e f))": a b c d e f => all((all((a, b, c)), all((d, e, f))));
        "(a ((b c) d) e)": a b c d e => all((a, all((all((b, c)), d)), e));
        "(a (b) c)": a b c => all((a, Some(b), c));
    }
}
