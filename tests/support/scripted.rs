//! A throttle that follows a script, and a log of its calls.
//!
//! The log entries, for a part with the name `a` and its permits `a0`, `a1` and so on: `enter a` and
//! `try a` (the request), `in a0` and `refuse a` (the answer), `leave a` (its wait was dropped
//! before it was over), `undo a0` and `drop a0` (the end of the permit). A failed attempt to enter
//! without a wait leaves no entry.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind, Throttle, TryThrottle};

/// The events of some throttles, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, event: impl Into<String>) {
        self.0.lock().unwrap().push(event.into());
    }

    /// Takes the events since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Creates a throttle that writes here. It lets every caller in until its script changes.
    pub(crate) fn part(&self, name: &'static str) -> Scripted {
        Scripted(Arc::new(Inner {
            name,
            log: self.clone(),
            state: Mutex::new(State {
                script: Script::Admit,
                permits: 0,
                wakers: Vec::new(),
            }),
        }))
    }
}

/// The script of a throttle for each caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Admit,
    /// Also refuses callers that do not wait.
    Wait,
    Refuse(ErrorKind),
    /// Panics when a caller tries to enter without a wait.
    PanicWhenTried,
    /// Panics when a caller asks for a wait.
    PanicWhenAsked,
    PanicWhenPolled,
}

/// The throttle. Clones share it.
#[derive(Clone)]
pub(crate) struct Scripted(Arc<Inner>);

struct Inner {
    name: &'static str,
    log: Log,
    state: Mutex<State>,
}

struct State {
    script: Script,
    permits: usize,
    wakers: Vec<Waker>,
}

impl Scripted {
    /// Sets the script, also for the present waiters, which are woken.
    pub(crate) fn now(&self, script: Script) {
        let wakers = {
            let mut state = self.0.state.lock().unwrap();
            state.script = script;
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn script(&self) -> Script {
        self.0.state.lock().unwrap().script
    }

    fn log(&self, event: &str) {
        self.0.log.add(format!("{event} {}", self.0.name));
    }

    fn admit(&self) -> ScriptedPermit {
        let number = {
            let mut state = self.0.state.lock().unwrap();
            state.permits += 1;
            state.permits - 1
        };
        let permit = ScriptedPermit {
            of: self.clone(),
            number,
            undone: false,
        };
        permit.log("in");
        permit
    }

    fn refuse(&self, kind: ErrorKind) -> AcquireError {
        self.log("refuse");
        AcquireError::new(kind)
    }
}

impl Throttle for Scripted {
    type Permit = ScriptedPermit;
    type Enter = ScriptedEnter;

    fn enter(&self) -> Waiting<ScriptedEnter> {
        self.log("enter");
        assert_ne!(self.script(), Script::PanicWhenAsked, "on purpose");
        Waiting::new(ScriptedEnter {
            of: self.clone(),
            over: false,
        })
    }

    fn enter_now(&self) -> Option<ScriptedPermit> {
        match self.script() {
            Script::Admit | Script::PanicWhenTried => self.try_enter().ok(),
            _ => None,
        }
    }

    fn rollback(&self, mut permit: ScriptedPermit) {
        assert!(Arc::ptr_eq(&self.0, &permit.of.0), "of another throttle");
        permit.undone = true;
        permit.log("undo");
    }
}

impl TryThrottle for Scripted {
    fn try_enter(&self) -> Result<ScriptedPermit, AcquireError> {
        self.log("try");
        match self.script() {
            Script::Admit => Ok(self.admit()),
            Script::Wait => Err(self.refuse(ErrorKind::NoPermits)),
            Script::Refuse(kind) => Err(self.refuse(kind)),
            _ => panic!("on purpose"),
        }
    }
}

/// Its wait.
pub(crate) struct ScriptedEnter {
    of: Scripted,
    over: bool,
}

impl Future for ScriptedEnter {
    type Output = Result<ScriptedPermit, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.over, "polled again after it was ready");
        let answer = match self.of.script() {
            Script::Wait => {
                let mut state = self.of.0.state.lock().unwrap();
                state.wakers.push(context.waker().clone());
                return Poll::Pending;
            }
            Script::Admit => Ok(self.of.admit()),
            Script::Refuse(kind) => Err(self.of.refuse(kind)),
            _ => panic!("on purpose"),
        };
        self.over = true;
        Poll::Ready(answer)
    }
}

impl Drop for ScriptedEnter {
    fn drop(&mut self) {
        if !self.over {
            self.of.log("leave");
        }
    }
}

/// Its permit.
pub(crate) struct ScriptedPermit {
    of: Scripted,
    number: usize,
    undone: bool,
}

impl ScriptedPermit {
    /// Returns the name in the log.
    pub(crate) fn name(&self) -> String {
        format!("{}{}", self.of.0.name, self.number)
    }

    fn log(&self, event: &str) {
        self.of.0.log.add(format!("{event} {}", self.name()));
    }
}

impl std::fmt::Debug for ScriptedPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Drop for ScriptedPermit {
    fn drop(&mut self) {
        if !self.undone {
            self.log("drop");
        }
    }
}

/// Another throttle: it answers at once, and logs `over` when a wait is dropped that is over by
/// then.
#[derive(Clone)]
pub(crate) struct Lingers {
    log: Log,
    answer: Result<(), AcquireError>,
}

impl Lingers {
    pub(crate) fn admits(log: &Log) -> Self {
        Self {
            log: log.clone(),
            answer: Ok(()),
        }
    }

    pub(crate) fn refuses(log: &Log) -> Self {
        Self {
            log: log.clone(),
            answer: Err(AcquireError::new(ErrorKind::Closed)),
        }
    }
}

impl Throttle for Lingers {
    type Permit = ();
    type Enter = Lingering;

    fn enter(&self) -> Waiting<Lingering> {
        Waiting::new(Lingering(self.clone()))
    }
}

pub(crate) struct Lingering(Lingers);

impl Future for Lingering {
    type Output = Result<(), AcquireError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(self.0.answer.clone())
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        self.0.log.add("over");
    }
}
