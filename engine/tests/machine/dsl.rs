//! Plans and histories that one can read.
//!
//! A plan is a line of tasks: `a b*3 c<a,b d?$a` is four of them. After its id a task has
//! `<x,y` (needs these, `<` none), `*3` (three attempts), `?` (a failure is tolerated), `!` (a
//! failure pauses), `^fail` or `^pause` (on loss), `$x` or `$x=` (takes the output of x, without
//! or with a default), `#code` (never retried) and `%` with a condition at the end: `%x` or `%x=5`
//! (the output of x is true, or 5), `%x:failed,skipped` (x has ended so), `%:failed` (the job is
//! about to end so), `~` or `~3` (it can be undone, in so many attempts, by what takes its output;
//! `@undo:failed,cancelled` says before which ends). `&` at the very end makes a task one for each
//! element: `&[1,2]`, or `&x` of the output of x, `/2` behind it two at a time. What stands behind
//! `@finally` is done at the end; `@fast` fails fast.
//! `@manual` waits for its start, `@at30` for so many seconds,
//! `@in30` has a deadline of so many seconds, `@out$x` makes the
//! plan's output that of x, `@key$host` gives it an
//! exclusive key.
//!
//! Edits are `insert z<a before b by c,d`, `move a after b`, `edit a {JSON} reset` (JSON without
//! spaces) and `retry a`; where no place is said it is the last.
//!
//! `signal NAME =JSON` tells the job something, and `await a NAME 60` has `a` wait for that until
//! then.
//!
//! A history is a list of commands and reports, separated by `;`. A failure has a code, and after
//! it `+90` (the next attempt is to wait that many seconds) and `~alias`: `fail a busy+90`.

use annals_engine::job::{
    CancelMode, Command, Context, Effect, Event, Input, Job, LogSize, LossRule, Origin, Outcome,
    Parent, PauseMode, Place, Recorded, Report, StepError, Submitted, TaskNumber, ValueDigest,
    Wait, begin, step, submit,
};
use annals_tasks_sdk::plan::{
    Backoff, Compensation, ForEach, Limits, OnFailure, OnLost, Plan, PolicyFields, Retry,
};
use annals_tasks_sdk::plan::{Policy, Start, TaskPatch, TaskSpec};
use annals_tasks_sdk::{Done, Exit, JobId, KindName, Payload, TaskError, TaskId, Timestamp};
use std::time::Duration;

use crate::told::signal;

pub(crate) fn id(name: &str) -> TaskId {
    TaskId::known(name).unwrap()
}

/// The context at a time in seconds.
pub(crate) fn at(seconds: i64) -> Context {
    let now = Timestamp::from_millis(seconds * 1_000);
    let losses = LossRule::default();
    Context { origin: Origin::actor("ada"), key: None, now, random: 0.0, losses, instances: 10_000 }
}

pub(crate) fn plan(text: &str) -> Plan {
    let (mut plan, mut at_end) = (Plan::new("job"), false);
    for word in text.split_whitespace() {
        match word.strip_prefix('@') {
            Some("manual") => plan.start = Start::Manual,
            Some(word) if word.starts_with("at") => {
                let at: i64 = word[2..].parse().unwrap();
                plan.start = Start::At(Timestamp::from_millis(at * 1_000));
            }
            // Said of the job, not of its plan.
            Some("child") => {}
            Some("fast") => plan.fail_fast = true,
            Some("finally") => at_end = true,
            Some(ends) if ends.starts_with("undo:") => {
                let json = format!(
                    r#"{{"name":"_","tasks":[{{"id":"_","kind":"_"}}],
                    "compensate_on":["{}"]}}"#,
                    ends[5..].replace(',', "\",\"")
                );
                plan.compensate_on =
                    Plan::from_json(&json, &Limits::default()).unwrap().compensate_on;
            }
            Some(key) if key.starts_with("key$") => plan.exclusive = Some(key[4..].into()),
            Some(word) if word.starts_with("in") => {
                plan.deadline = Some(Duration::from_secs(word[2..].parse().unwrap()));
            }
            Some(output) => {
                let (name, default) = reference(output.strip_prefix("out$").unwrap());
                plan.output = Some(taking(&[(name, default)]));
            }
            None if at_end => plan.finally.push(task(word)),
            None => plan.tasks.push(task(word)),
        }
    }
    plan
}

fn reference(text: &str) -> (&str, bool) {
    text.strip_suffix('=').map_or((text, false), |name| (name, true))
}

fn taking(outputs: &[(&str, bool)]) -> Payload {
    let one = |(name, default): &(&str, bool)| {
        let default = if *default { r#", "default": 0"# } else { "" };
        format!(r#"{{"$output": "{name}"{default}}}"#)
    };
    let list = outputs.iter().map(one).collect::<Vec<_>>().join(", ");
    Payload::parse(&format!("[{list}]")).unwrap()
}

fn task(word: &str) -> TaskSpec {
    let marks = ['<', '*', '?', '!', '^', '$', '#', '~'];
    let (word, each) = word.split_once('&').map_or((word, None), |(word, each)| (word, Some(each)));
    let (word, when) = word.split_once('%').map_or((word, None), |(word, when)| (word, Some(when)));
    let end = word.find(marks).unwrap_or(word.len());
    let mut spec = TaskSpec::new(id(&word[..end]), KindName::new("noop").unwrap());
    let mut policy = PolicyFields {
        retry: Retry { backoff: backoff(), ..Retry::default() },
        ..PolicyFields::default()
    };
    let mut outputs = Vec::new();
    let mut rest = &word[end..];
    while let Some(mark) = rest.chars().next() {
        let after = &rest[1..];
        let end = after.find(marks).unwrap_or(after.len());
        let value = &after[..end];
        match mark {
            '<' => spec.needs = Some(value.split(',').filter(|v| !v.is_empty()).map(id).collect()),
            '*' => policy.retry.max_attempts = value.parse().unwrap(),
            '?' => policy.on_failure = OnFailure::Continue,
            '!' => policy.on_failure = OnFailure::Pause,
            '^' => {
                let pauses = value == "pause";
                policy.on_lost = if pauses { OnLost::Pause } else { OnLost::Fail };
            }
            '$' => outputs.push(reference(value)),
            '~' => spec.compensate = Some(Box::new(compensation(&spec.id, value))),
            _ => policy.retry.never.push(value.into()),
        }
        rest = &after[end..];
    }
    if !outputs.is_empty() {
        spec.input = taking(&outputs);
    }
    spec.policy = Policy::new(policy);
    let json = when.map(|when| format!(r#"{{"id":"_","kind":"_","when":{}}}"#, condition(when)));
    let read = json.map(|json| TaskSpec::from_json(&json, &Limits::default()).unwrap());
    spec.when = read.and_then(|read| read.when);
    if let Some(each) = each {
        spec.for_each = Some(Box::new(for_each(each)));
        if spec.input.is_null() {
            spec.input = Payload::trusted(r#"{"$item":""}"#);
        }
    }
    spec
}

fn for_each(text: &str) -> ForEach {
    let (items, concurrency) = text.split_once('/').unwrap_or((text, ""));
    let items = if items.starts_with(['[', '{']) {
        items.to_owned()
    } else {
        format!(r#"{{"$output":"{items}"}}"#)
    };
    ForEach { items: Payload::parse(&items).unwrap(), concurrency: concurrency.parse().ok() }
}

fn compensation(of: &TaskId, attempts: &str) -> Compensation {
    let mut undo = Compensation::new(KindName::new("noop").unwrap());
    undo.input = Payload::parse(&format!(r#"{{"$output": "{of}"}}"#)).unwrap();
    let max_attempts = attempts.parse().unwrap_or(1);
    let retry = Retry { max_attempts, backoff: backoff(), ..Retry::default() };
    undo.policy = Policy::new(PolicyFields { retry, ..PolicyFields::default() });
    undo
}

fn backoff() -> Backoff {
    let (initial, max) = (Duration::from_secs(10), Duration::from_mins(1));
    Backoff { initial, factor: 2.0, max, jitter: 0.2 }
}

fn condition(text: &str) -> String {
    if let Some((task, ends)) = text.split_once(':') {
        let of = if task.is_empty() { String::new() } else { format!(r#""task":"{task}","#) };
        let ends = ends.replace(',', "\",\"");
        return format!(r#"{{{of}"status":["{ends}"]}}"#);
    }
    match text.split_once('=') {
        Some((task, value)) => format!(r#"{{"$output":"{task}","equals":{value}}}"#),
        None => format!(r#"{{"$output":"{text}"}}"#),
    }
}

/// The command that a line says.
pub(crate) fn command(line: &str) -> Command {
    asked(line).unwrap_or_else(|| panic!("{line} is no command"))
}

fn asked(line: &str) -> Option<Command> {
    let mut words = line.split_whitespace();
    let verb = words.next()?;
    let name = words.next();
    let rest: Vec<&str> = words.collect();
    let cascade = rest.contains(&"cascade");
    let output = rest.iter().find_map(|word| word.strip_prefix('='));
    let output = output.map(|text| Payload::parse(text).unwrap());
    Some(match verb {
        "execute" => Command::Execute { paused: name == Some("held") },
        "pause" => Command::Pause { mode: PauseMode::Drain },
        "interrupt" => Command::Pause { mode: PauseMode::Interrupt },
        "resume" => Command::Resume,
        "cancel" if name == Some("now") => Command::Cancel { mode: CancelMode::Now },
        "cancel" => Command::CANCEL,
        "purge" => Command::Purge { head: [9; 32] },
        "skip" => Command::Skip { task: name.map(id), output, cascade },
        "remove" => Command::Remove { task: id(name?), cascade },
        "insert" => {
            let by = rest.iter().position(|&word| word == "by");
            let needed_by = by.map_or("", |by| rest[by + 1]).split(',');
            let needed_by = needed_by.filter(|name| !name.is_empty()).map(id).collect();
            Command::Insert { task: Box::new(task(name?)), place: place(&rest), needed_by }
        }
        "move" => Command::Move { task: id(name?), place: place(&rest) },
        "edit" => {
            let patch = TaskPatch::from_json(rest[0], &Limits::default()).unwrap();
            Command::Edit { task: id(name?), patch, reset: rest.contains(&"reset") }
        }
        "retry" => Command::Retry { task: id(name?) },
        "signal" => Command::Signal { name: signal(name?), payload: output.unwrap_or_default() },
        _ => return None,
    })
}

fn place(words: &[&str]) -> Place {
    match words {
        ["first", ..] => Place::First,
        ["before", name, ..] => Place::Before(id(name)),
        ["after", name, ..] => Place::After(id(name)),
        _ => Place::Last,
    }
}

/// A job, its history, and a clock in seconds.
pub(crate) struct World {
    pub(crate) job: Job,
    pub(crate) history: Vec<Recorded>,
    pub(crate) now: i64,
}

/// What one command came to.
pub(crate) type Answer = Result<Vec<Recorded>, String>;

impl World {
    pub(crate) fn new(text: &str) -> Self {
        let linked = text.split_whitespace().any(|word| word == "@child");
        Self::begun(plan(text), linked)
    }

    pub(crate) fn of(plan: Plan) -> Self {
        Self::begun(plan, false)
    }

    fn begun(plan: Plan, linked: bool) -> Self {
        let submitted = Submitted { plan, workflow: None, source: None };
        let mut events = submit(submitted, &Limits::default()).unwrap();
        if linked {
            let (job, task) = (JobId::from_u128(2), TaskNumber(1));
            let parent = Parent { job, task, task_id: id("p"), depth: 1 };
            events.insert(1, Event::JobLinked(Box::new(parent)));
        }
        let (job, history) = begin(JobId::from_u128(1), events, &at(0)).unwrap();
        Self { job, history, now: 0 }
    }

    /// Runs a history; none of it may be refused.
    pub(crate) fn given(mut self, script: &str) -> Self {
        for line in script.split(';').map(str::trim).filter(|line| !line.is_empty()) {
            if let Err(refusal) = self.one(line) {
                panic!("{line}: {refusal}");
            }
        }
        self
    }

    /// Takes one step, and tells what happened or why nothing did.
    pub(crate) fn when(&mut self, line: &str) -> String {
        match self.one(line) {
            Ok(events) => self.told(&events),
            Err(code) => format!("refused: {code}"),
        }
    }

    fn one(&mut self, line: &str) -> Answer {
        if let Some(seconds) = line.strip_prefix('+') {
            self.now += seconds.parse::<i64>().unwrap();
            return Ok(Vec::new());
        }
        let input = self.input(line);
        let (now, before) = (self.now, self.job.clone());
        let done = match step(&mut self.job, input, &at(now)) {
            Ok(events) => events,
            Err(StepError::Rejected(rejection)) => {
                assert_eq!(self.job, before, "a refusal changes nothing");
                return Err(rejection.code.to_owned());
            }
            Err(illegal) => panic!("{line}: {illegal}"),
        };
        self.history.extend(done.iter().cloned());
        assert_eq!(replay(&self.history), self.job, "replay equals live");
        Ok(done)
    }

    fn input(&self, line: &str) -> Input {
        if let Some(command) = asked(line) {
            return command.into();
        }
        let mut words = line.split_whitespace();
        match (words.next().unwrap(), words.next()) {
            ("tick", _) => Report::Tick.into(),
            ("recover", _) => Report::Recover.into(),
            ("wish", order) => Report::Wished(self.wish(order.unwrap(), words.next())).into(),
            (verb, name) => self.report(verb, name.unwrap(), words).into(),
        }
    }

    fn report<'a>(
        &self,
        verb: &str,
        name: &str,
        mut words: impl Iterator<Item = &'a str>,
    ) -> Report {
        let argument = words.next();
        // `a#2` is the second attempt of a; without a number it is the last one.
        let (name, attempt) = name.split_once('#').unwrap_or((name, ""));
        let task = self.job.find(name).unwrap_or(TaskNumber(99));
        let last = self.job.task(task).map_or(0, |task| task.attempts().len());
        let attempt = attempt.parse().unwrap_or(u32::try_from(last).unwrap());
        let seconds = |text: &str| Timestamp::from_millis(text.parse::<i64>().unwrap() * 1_000);
        if let Some(heard) = self.heard(verb, task, argument) {
            return heard;
        }
        let outcome = match (verb, argument) {
            ("start", _) => return Report::Start { task },
            ("sleep", until) => {
                let until = seconds(until.unwrap());
                return Report::Park { task, wait: Wait::Timer { until } };
            }
            ("await", Some(name)) => {
                let until = words.next().map(seconds);
                return Report::Park { task, wait: Wait::Signal { name: signal(name), until } };
            }
            ("kindless", _) => return Report::Park { task, wait: Wait::Kind },
            ("refuse", _) => {
                return Report::Refuse { task, error: TaskError::new("bad_request", "no") };
            }
            ("checkpoint", _) => {
                let value = ValueDigest { len: 1, hash: [7; 32] };
                return Report::Checkpoint { task, attempt, value };
            }
            ("step", name) => {
                let value = ValueDigest { len: 1, hash: [9; 32] };
                return Report::Step { task, attempt, name: name.unwrap().into(), value };
            }
            ("done", output) => Outcome::Completed(Done {
                output: Payload::parse(output.unwrap_or("1")).unwrap(),
                exit: Exit::default(),
            }),
            ("fail", code) => Outcome::Failed(failure(code.unwrap_or("error"))),
            ("give_up", _) => Outcome::Failed(TaskError::new("error", "no").give_up()),
            ("timeout", Some(code)) => Outcome::TimedOut(failure(code)),
            ("timeout", None) => Outcome::TimedOut(TaskError::cancelled()),
            ("stopped", _) => Outcome::Interrupted(TaskError::cancelled()),
            _ => panic!("no such verb: {verb}"),
        };
        Report::Ended { task, attempt, outcome, log: LogSize::default() }
    }

    fn told(&self, events: &[Recorded]) -> String {
        events.iter().map(|event| self.tell(&event.event)).collect::<Vec<_>>().join("; ")
    }

    /// An event in words: its type, its task, its attempt, and what matters of the rest.
    fn tell(&self, event: &Event) -> String {
        let name = event.type_name();
        let of = |task: &TaskNumber| self.job.task(*task).unwrap().spec.id.clone();
        let seconds = |time: &Timestamp| time.as_millis() / 1_000;
        match event {
            Event::AttemptStarted { task, attempt }
            | Event::AttemptFailed { task, attempt, .. }
            | Event::AttemptTimedOut { task, attempt, .. }
            | Event::AttemptInterrupted { task, attempt, .. }
            | Event::AttemptLost { task, attempt }
            | Event::CheckpointSaved { task, attempt, .. }
            | Event::TaskCompleted { task, attempt, .. } => {
                format!("{name} {}#{attempt}", of(task))
            }
            Event::StepRecorded { task, attempt, name: step, .. } => {
                format!("{name} {}#{attempt} {step}", of(task))
            }
            Event::SignalReceived { name: signal, .. } => format!("{name} {signal}"),
            Event::SignalDelivered { task, name: told, signal } => {
                format!("{name} {} {told} {signal}", of(task))
            }
            Event::RetryScheduled { task, due } => format!("{name} {} {}", of(task), seconds(due)),
            Event::TaskExpanded { task, items } => {
                format!("{name} {} {}", of(task), items.elements().unwrap().len())
            }
            Event::TaskFailed { task, error } => format!("{name} {} {}", of(task), error.code),
            Event::JobFailed { error } | Event::DeadlinePassed { error } => {
                format!("{name} {}", error.code)
            }
            Event::JobCompensating { end, error, tasks } => {
                let code = error.as_ref().map_or(String::new(), |error| format!(" {}", error.code));
                let all: Vec<String> = tasks.iter().map(|task| of(task).to_string()).collect();
                format!("{name} {}{code} {}", end.as_str(), all.join(","))
            }
            Event::JobEnding { end, error: Some(error) } => {
                format!("{name} {} {}", end.as_str(), error.code)
            }
            Event::JobEnding { end, error: None } => format!("{name} {}", end.as_str()),
            Event::TaskSkipped { task, .. }
            | Event::SkipRequested { task, .. }
            | Event::TaskRemoved { task }
            | Event::TaskInserted { task, .. }
            | Event::TaskMoved { task, .. }
            | Event::TaskEdited { task, .. }
            | Event::ChildStarted { task, .. }
            | Event::ChildPaused { task }
            | Event::ChildEnded { task, .. }
            | Event::TaskWaiting { task, .. } => format!("{name} {}", of(task)),
            _ => name.to_owned(),
        }
    }

    /// `a=completed b=waiting`.
    pub(crate) fn tasks(&self) -> String {
        let one = |(_, task): (_, &annals_engine::job::Task)| {
            format!("{}={}", task.spec.id, task.status())
        };
        self.job.tasks().map(one).collect::<Vec<_>>().join(" ")
    }

    /// The instances of a task: `completed failed pending`.
    pub(crate) fn items(&self, task: &str) -> String {
        let task = self.job.task(self.job.find(task).unwrap()).unwrap();
        let words = self.job.instances(task).map(|(_, one)| one.status().as_str());
        words.collect::<Vec<_>>().join(" ")
    }

    /// What a task gives, as JSON.
    pub(crate) fn output(&self, task: &str) -> Option<String> {
        let task = self.job.task(self.job.find(task).unwrap()).unwrap();
        self.job.output_of(task).map(|output| output.as_str().to_owned())
    }

    /// The effects now: `want b`, `run a#1`, `stop a#1 Cancel`, `wake 30`.
    pub(crate) fn effects(&self) -> String {
        let of = |task: TaskNumber| self.job.task(task).unwrap().spec.id.to_string();
        let one = |effect| match effect {
            Effect::Run { task, attempt } => format!("run {}#{attempt}", of(task)),
            Effect::Stop { task, attempt, reason } => {
                format!("stop {}#{attempt} {reason:?}", of(task))
            }
            Effect::Want { task, suspect: false } => format!("want {}", of(task)),
            Effect::Want { task, suspect: true } => format!("want {} alone", of(task)),
            Effect::Wake { at } => format!("wake {}", at.as_millis() / 1_000),
            _ => "?".to_owned(),
        };
        let now = Timestamp::from_millis(self.now * 1_000);
        let effects = self.job.effects(now, LossRule::default());
        effects.map(one).collect::<Vec<_>>().join(", ")
    }

    /// The time in seconds that a task waits for.
    pub(crate) fn due(&self, task: &str) -> Option<i64> {
        let until = self.job.task(self.job.find(task)?)?.waiting()?.until()?;
        Some(until.as_millis() / 1_000)
    }
}

fn failure(text: &str) -> TaskError {
    let (text, alias) = text.split_once('~').map_or((text, None), |(text, it)| (text, Some(it)));
    let (code, wait) = text.split_once('+').map_or((text, None), |(code, it)| (code, Some(it)));
    let exit = code.strip_prefix("exit_").map(|code| code.parse().unwrap());
    let error = TaskError::new(if exit.is_some() { "exit_status" } else { code }, "it broke");
    let error = error.with_exit(Exit { code: exit, signal: None });
    let error = alias.into_iter().fold(error, TaskError::with_alias);
    let wait = wait.map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    wait.into_iter().fold(error, TaskError::retry_after)
}

/// The state that a history makes.
pub(crate) fn replay(history: &[Recorded]) -> Job {
    let mut job = Job::begin(JobId::from_u128(1), &history[0]).unwrap();
    for event in &history[1..] {
        job.evolve(event).unwrap();
    }
    job
}

/// On a job with this plan, after `given`, `when` makes `then` happen.
#[track_caller]
pub(crate) fn check(plan: &str, given: &str, when: &str, then: &str) -> World {
    let mut world = World::new(plan).given(given);
    assert_eq!(world.when(when), then, "{plan} | {given} | {when}");
    world
}
