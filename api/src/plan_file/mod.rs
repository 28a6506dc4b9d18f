//! Plan files: YAML or JSON, with the line and the column of every fault.
//!
//! A file becomes JSON text, which the SDK reads and checks; its faults come back with JSON
//! pointers, which this module turns into places in the file.

mod overrides;
mod scalar;
mod yaml;

use std::fmt;
use std::path::{Path, PathBuf};

use annals_tasks_sdk::plan::{Limits, Plan, PlanErrors};
use serde_json::value::RawValue;

use crate::json;

pub use overrides::{BadOverride, Overrides};

/// Larger plan files are refused.
pub const PLAN_BYTES_MAX: usize = 16 << 20;

/// What some editors put before the text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A place in a file, both numbers from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// One fault of a plan file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where in the file; `None` where it is about the file itself, or about what the command
    /// line put in.
    pub place: Option<Place>,
    /// JSON Pointer into the plan; empty for the whole.
    pub pointer: String,
    /// What is wrong, as a sentence.
    pub detail: String,
}

impl Fault {
    fn at(place: Place, detail: impl Into<String>) -> Self {
        Self { place: Some(place), pointer: String::new(), detail: detail.into() }
    }

    fn of_file(detail: impl Into<String>) -> Self {
        Self { place: None, pointer: String::new(), detail: detail.into() }
    }
}

/// All that is wrong with a plan file, never empty. Shown, each is a line that editors can
/// jump to: `FILE:LINE:COLUMN: POINTER: DETAIL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub list: Vec<Fault>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        for (index, Fault { place, pointer, detail }) in self.list.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{path}:")?;
            if let Some(Place { line, column }) = place {
                write!(f, "{line}:{column}:")?;
            }
            let colon = if pointer.is_empty() { "" } else { ": " };
            write!(f, " {pointer}{colon}{detail}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// A file that holds a plan, or at least JSON or YAML.
#[derive(Debug)]
pub struct PlanFile {
    path: PathBuf,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Json(String),
    Yaml(yaml::Converted),
}

impl PlanFile {
    /// Reads a file: JSON where its name ends with `.json`, YAML otherwise.
    pub fn read(path: &Path) -> Result<Self, Faults> {
        let faults = |fault| Faults { path: path.to_owned(), list: vec![fault] };
        let text = read_text(path).map_err(faults)?;
        Self::parse(path, text).map_err(faults)
    }

    /// Reads the text of a file with this name.
    pub fn parse(path: &Path, text: String) -> Result<Self, Fault> {
        let is_json = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
        let source = if is_json {
            // The whole is checked first, because what is no JSON has a place only there.
            if let Err(error) = serde_json::from_str::<&RawValue>(&text) {
                let place = Place { line: error.line().max(1), column: error.column().max(1) };
                if text.trim().is_empty() {
                    return Err(Fault::at(place, "the file holds nothing"));
                }
                let detail = error.to_string();
                let detail = detail.split(" at line ").next().unwrap_or_default();
                return Err(Fault::at(place, format!("no valid JSON: {detail}")));
            }
            Source::Json(text)
        } else {
            Source::Yaml(yaml::convert(&text)?)
        };
        Ok(Self { path: path.to_owned(), source })
    }

    /// What the file holds, as JSON text.
    pub fn json(&self) -> &str {
        match &self.source {
            Source::Json(text) => text,
            Source::Yaml(converted) => &converted.json,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file holds, as JSON text, with what the command line says in its place.
    pub fn with(&self, overrides: &Overrides) -> Result<String, Faults> {
        overrides.apply(self.json()).map_err(|bad| Faults {
            path: self.path.clone(),
            list: vec![Fault::of_file(bad.to_string())],
        })
    }

    /// Reads the plan, with what the command line says in place of the file.
    pub fn plan(&self, overrides: &Overrides, limits: &Limits) -> Result<Plan, Faults> {
        let text = self.with(overrides)?;
        let faults = |errors: PlanErrors| self.faults(&errors, overrides);
        Plan::from_json(&text, limits).map_err(faults)
    }

    /// The places of a plan's faults.
    pub fn faults(&self, errors: &PlanErrors, overrides: &Overrides) -> Faults {
        let list = errors.0.iter().map(|error| {
            let by_hand = overrides.touch(&error.pointer);
            Fault {
                place: (!by_hand).then(|| self.place(&error.pointer)),
                pointer: error.pointer.clone(),
                detail: error.detail.clone(),
            }
        });
        let mut list: Vec<Fault> = list.collect();
        list.sort_by_key(|fault| fault.place);
        Faults { path: self.path.clone(), list }
    }

    fn place(&self, pointer: &str) -> Place {
        let offset = json::locate(self.json(), pointer);
        match &self.source {
            Source::Yaml(converted) => converted.place(offset),
            Source::Json(text) => {
                let before = &text[..offset];
                let line = before.matches('\n').count() + 1;
                let begin = before.rfind('\n').map_or(0, |at| at + 1);
                Place { line, column: before[begin..].chars().count() + 1 }
            }
        }
    }
}

fn read_text(path: &Path) -> Result<String, Fault> {
    use std::io::Read;
    let unread = |error: std::io::Error| Fault::of_file(format!("cannot be read: {error}"));
    let file = std::fs::File::open(path).map_err(unread)?;
    let mut bytes = Vec::new();
    let limit = PLAN_BYTES_MAX as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() > PLAN_BYTES_MAX {
        return Err(Fault::of_file("the file is larger than 16 MiB, the limit for plans"));
    }
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].split(|byte| *byte == b'\n').count();
        Fault::of_file(format!("line {line} is not UTF-8"))
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
