//! Signals: what the oracle makes of them.

use annals_engine::job::{Event, JobStatus, Recorded, Rejection};
use annals_tasks_sdk::{Payload, SignalName};

use crate::known::Waits;
use crate::oracle::{Oracle, index};

/// The names of signals on a walk.
pub(crate) const NAMES: [&str; 2] = ["go", "stop"];

pub(crate) fn signal(name: &str) -> SignalName {
    SignalName::new(name).unwrap()
}

/// Which of the names of a walk it is.
pub(crate) fn which(name: &SignalName) -> usize {
    NAMES.iter().position(|known| *known == name.as_str()).unwrap()
}

/// A signal that is kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kept {
    pub(crate) seq: u64,
    pub(crate) name: usize,
    pub(crate) payload: Payload,
}

impl Oracle {
    /// Whether a signal could still be of use.
    fn takes_signals(&self) -> bool {
        match self.status {
            _ if self.purged => false,
            _ if self.is_ending() => self.has_finally() || (self.undoes_now && !self.cut),
            JobStatus::Completed | JobStatus::Cancelled => false,
            _ => true,
        }
    }

    pub(crate) fn awaits(&self, name: usize) -> impl Iterator<Item = usize> {
        let waits = move |at: &usize| match self.tasks[*at].waits {
            Some(Waits::Signal { name: awaited, .. }) => awaited == name,
            _ => false,
        };
        self.order.iter().copied().filter(waits)
    }

    pub(crate) fn awaits_any(&self) -> bool {
        (0..NAMES.len()).any(|name| self.awaits(name).next().is_some())
    }

    pub(crate) fn take_in_signal(&mut self, event: &Event) {
        if let Some((at, payload)) = &self.answered {
            let Event::TaskCompleted { task, attempt: 0, output, .. } = event else {
                panic!("{event:?} before t{at} has given what its signal brought");
            };
            assert_eq!((index(*task), output), (*at, payload));
            assert!(self.dispatches() && !self.is_overdue(self.time));
        }
        match event {
            Event::SignalReceived { name, payload } => {
                assert!(self.takes_signals() && self.leads);
                let (seq, payload) = (self.seq, payload.clone());
                self.kept.push(Kept { seq, name: which(name), payload });
            }
            Event::SignalDelivered { task, name, signal } => {
                assert!(self.dispatches() && !self.is_overdue(self.time) && !self.leads);
                let name = which(name);
                assert_eq!(self.awaits(name).next(), Some(index(*task)), "the first in the plan");
                let first = self.kept.iter().position(|kept| kept.name == name).unwrap();
                let kept = self.kept.remove(first);
                assert_eq!(kept.seq, *signal, "the first that came");
                self.answered = Some((index(*task), kept.payload));
            }
            Event::JobPaused => self.each_timeout(|until, rest, now| {
                *rest = until.take().map(|until| (until - now).max(0));
            }),
            Event::JobCompleted => self.kept.clear(),
            _ => {}
        }
    }

    pub(crate) fn each_timeout(
        &mut self,
        change: impl Fn(&mut Option<i64>, &mut Option<i64>, i64),
    ) {
        for task in &mut self.tasks {
            if let Some(Waits::Signal { until, rest, .. }) = &mut task.waits {
                change(until, rest, self.time);
            }
        }
    }

    /// Whether something is kept that a task waits for.
    pub(crate) fn keeps_back(&self) -> bool {
        let open = self.dispatches() && !self.is_overdue(self.time);
        open && self.kept.iter().any(|kept| self.awaits(kept.name).next().is_some())
    }

    /// Whether a signal must have been accepted, when it is as it was before.
    pub(crate) fn judges(&self, answer: &Result<Vec<Recorded>, Rejection>) {
        let code = answer.as_ref().err().map(|refusal| refusal.code);
        let expected = match self.takes_signals() {
            _ if self.purged => Some("purged"),
            true => None,
            false => Some("not_in_this_status"),
        };
        assert_eq!(code, expected);
    }
}
