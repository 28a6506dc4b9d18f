//! Why a command could not be carried out, in words and in JSON.

use std::borrow::Cow;

use annals_engine::job::Dependant;
use annals_tasks_sdk::plan::{PlanError, PlanErrors};
use serde::Serialize;

use super::exit::Exit;
use super::from::INVALID_PLAN;
use crate::cli::text::plain;
use crate::http::{FieldError, Problem};
use crate::plan_file::{Fault, Faults, Overrides, PlanFile};

/// Why a command could not be carried out, in words.
#[derive(Debug)]
pub(in crate::cli) struct CliError {
    pub(in crate::cli) exit: Exit,
    /// A stable word for programs.
    code: Cow<'static, str>,
    /// A sentence without a full stop, with what to do.
    detail: String,
    /// Boxed, because most commands succeed.
    pub(super) more: Box<More>,
}

/// What goes with some errors.
#[derive(Debug, Default)]
pub(super) struct More {
    /// Lines to show before the sentence: a difference.
    pub(super) lines: Option<String>,
    /// Faults, where they are in a file.
    pub(super) faults: Option<Faults>,
    /// Faults, where they are in a plan that is in no file.
    pub(super) errors: Vec<PlanError>,
    pub(super) job_status: Option<String>,
    pub(super) allowed: Option<Vec<String>>,
    pub(super) dependants: Vec<Dependant>,
    /// What is left of a job that was purged.
    pub(super) purged: Option<serde_json::Value>,
    pub(super) request_id: Option<String>,
}

/// The JSON of an error, much like the problem details of HTTP.
#[derive(Serialize)]
struct Shape<'a> {
    code: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_status: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dependants: Vec<Taker<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Place<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purged: Option<&'a serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Taker<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    reference: &'a str,
}

#[derive(Serialize)]
struct Place<'a> {
    pointer: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
}

impl CliError {
    pub(in crate::cli) fn new(
        exit: Exit,
        code: impl Into<Cow<'static, str>>,
        detail: impl Into<String>,
    ) -> Self {
        Self { exit, code: code.into(), detail: detail.into(), more: Box::default() }
    }

    pub(in crate::cli) fn usage(detail: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", detail)
    }

    pub(in crate::cli) fn unreachable(detail: impl Into<String>) -> Self {
        Self::new(Exit::Unreachable, "unreachable", detail)
    }

    /// What is wrong with a task that is to be inserted, or an edit of one.
    pub(in crate::cli) fn of_task(errors: PlanErrors) -> Self {
        let mut error = Self::new(Exit::Usage, "invalid_task", "the task is not valid");
        error.more.errors = errors.0;
        error
    }

    /// What is wrong with a list of edits.
    pub(in crate::cli) fn of_edits(problem: Problem) -> Self {
        let detail = problem.detail().to_owned();
        let mut error = Self::new(Exit::Usage, problem.code().word, detail);
        let places = problem.into_errors().into_iter();
        let place = |place: FieldError| PlanError { pointer: place.pointer, detail: place.detail };
        error.more.errors = places.map(place).collect();
        error
    }

    /// Of one edit in a list; its task is described there at `body`.
    pub(in crate::cli) fn of_edit(mut self, index: usize, body: &str) -> Self {
        self.detail = format!("edit {}: {}", index + 1, self.detail);
        for error in &mut self.more.errors {
            error.pointer.insert_str(0, &format!("/{index}{body}"));
        }
        self
    }

    /// The same, where a server says it of the body that the list stood in.
    pub(in crate::cli) fn in_list_of_edits(mut self) -> Self {
        for error in &mut self.more.errors {
            if let Some(pointer) = error.pointer.strip_prefix("/edits") {
                error.pointer = pointer.to_owned();
            }
        }
        self
    }

    /// With lines that are shown before the sentence.
    pub(in crate::cli) fn after_lines(mut self, lines: String) -> Self {
        self.more.lines = Some(lines);
        self
    }

    /// With what else is to be done, as the end of the sentence.
    pub(in crate::cli) fn and(mut self, more: &str) -> Self {
        self.detail.push_str(more);
        self
    }

    /// With the places in a file of the faults that it has.
    pub(in crate::cli) fn in_file(self, file: &PlanFile, overrides: &Overrides) -> Self {
        if self.more.errors.is_empty() {
            return self;
        }
        let faults = file.faults(&PlanErrors(self.more.errors), overrides);
        if self.code == INVALID_PLAN {
            return faults.into();
        }
        let more = Box::new(More { faults: Some(faults), errors: Vec::new(), ..*self.more });
        Self { more, ..self }
    }

    /// Names the flags that do what the sentence of an error with this code ends with.
    pub(in crate::cli) fn with_flags(mut self, code: &str, flags: &str) -> Self {
        if self.code == code {
            self.detail.push_str(flags);
        }
        self
    }

    /// Says it on stderr. When that is closed nobody is left to be told.
    pub(in crate::cli) fn print(&self, json: bool) {
        use std::io::Write;
        let mut out = anstream::stderr().lock();
        if json {
            let problem = serde_json::to_string(&self.shape()).unwrap_or_default();
            let _ = writeln!(out, "{problem}");
            return;
        }
        if let Some(faults) = &self.more.faults {
            for line in faults.to_string().lines() {
                let _ = writeln!(out, "{}", plain(line));
            }
        }
        for error in &self.more.errors {
            let _ = writeln!(out, "{}", plain(&error.to_string()));
        }
        if let Some(lines) = &self.more.lines {
            for line in lines.lines() {
                let _ = writeln!(out, "{}", plain(line));
            }
        }
        let _ = writeln!(out, "annals: {}", plain(&self.detail));
    }

    fn shape(&self) -> Shape<'_> {
        let More { lines, faults, errors, job_status, allowed, dependants, purged, request_id } =
            &*self.more;
        let without_file = || errors.iter().map(Place::without_file).collect();
        Shape {
            code: &self.code,
            detail: &self.detail,
            job_status: job_status.as_deref(),
            allowed: allowed.as_deref(),
            dependants: dependants.iter().map(Taker::of).collect(),
            file: faults.as_ref().map(|faults| faults.path.display().to_string()),
            errors: faults.as_ref().map_or_else(without_file, places),
            difference: lines.as_deref(),
            purged: purged.as_ref(),
            request_id: request_id.as_deref(),
        }
    }
}

impl<'a> Taker<'a> {
    fn of(dependant: &'a Dependant) -> Self {
        Self { task: dependant.task.as_deref(), reference: &dependant.reference }
    }
}

fn places(faults: &Faults) -> Vec<Place<'_>> {
    faults.list.iter().map(Place::of).collect()
}

impl<'a> Place<'a> {
    fn without_file(error: &'a PlanError) -> Self {
        Self { pointer: &error.pointer, detail: &error.detail, line: None, column: None }
    }

    fn of(fault: &'a Fault) -> Self {
        let (line, column) = (fault.place.map(|at| at.line), fault.place.map(|at| at.column));
        Self { pointer: &fault.pointer, detail: &fault.detail, line, column }
    }
}
