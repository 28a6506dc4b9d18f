//! From YAML to JSON text, with the place of everything.
//!
//! The reader is a loop over the parser's events with a stack of its own, so that depth cannot
//! overflow anything; an alias copies the JSON text of its anchor, so that a limit on the text
//! bounds what aliases can make of a small file.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, options};

use super::{Fault, PLAN_BYTES_MAX, Place, scalar};
use crate::json::quoted;

/// A YAML document as JSON.
#[derive(Debug)]
pub(super) struct Converted {
    /// The JSON text.
    pub(super) json: String,
    /// Where the keys, elements and texts come from, by their offsets in the JSON text.
    marks: Vec<(usize, Place)>,
}

impl Converted {
    /// Where what stands at an offset of the JSON text comes from.
    pub(super) fn place(&self, offset: usize) -> Place {
        let after = self.marks.partition_point(|(at, _)| *at <= offset);
        after.checked_sub(1).map_or(Place { line: 1, column: 1 }, |at| self.marks[at].1)
    }
}

/// Converts the only document of `text`.
pub(super) fn convert(text: &str) -> Result<Converted, Fault> {
    let mut writer = Writer::default();
    for next in Parser::new_from_str_with_options(text, options! { emit_comments: false }) {
        let (event, span) = next
            .map_err(|error| fault(*error.marker(), format!("no valid YAML: {}", error.info())))?;
        writer.take(event, span)?;
        if writer.json.len() > PLAN_BYTES_MAX {
            let detail = "the plan is larger than 16 MiB once its aliases are written out";
            return Err(fault(span.start, detail));
        }
    }
    if matches!(writer.json.as_str(), "" | "null") {
        return Err(Fault::at(Place { line: 1, column: 1 }, "the file holds nothing"));
    }
    Ok(Converted { json: writer.json, marks: writer.marks })
}

fn place(mark: Marker) -> Place {
    Place { line: mark.line(), column: mark.col() + 1 }
}

fn fault(mark: Marker, detail: impl Into<String>) -> Fault {
    Fault::at(place(mark), detail)
}

#[derive(Default)]
struct Writer {
    json: String,
    marks: Vec<(usize, Place)>,
    open: Vec<Collection>,
    /// Where the JSON text of each anchor's value stands.
    anchors: HashMap<usize, (usize, usize)>,
    documents: usize,
}

struct Collection {
    shape: Shape,
    anchor: usize,
    start: usize,
    empty: bool,
}

enum Shape {
    Sequence,
    Mapping { keys: HashSet<String>, value_follows: bool },
}

impl Writer {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        let start = span.start;
        if event.tag().is_some() {
            let mark = span.tag_start().unwrap_or(start);
            return Err(fault(mark, "tags are not supported: leave it out"));
        }
        match event {
            Event::DocumentStart(_, version) => self.document(start, version.is_some()),
            Event::Scalar(text, style, anchor, _) => self.scalar(&text, style, anchor, start),
            Event::SequenceStart(_, anchor, _) => self.open('[', Shape::Sequence, anchor, start),
            Event::MappingStart(_, anchor, _) => {
                let shape = Shape::Mapping { keys: HashSet::new(), value_follows: false };
                self.open('{', shape, anchor, start)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.close();
                Ok(())
            }
            Event::Alias(anchor) => self.alias(anchor, start),
            _ => Ok(()),
        }
    }

    fn document(&mut self, start: Marker, versioned: bool) -> Result<(), Fault> {
        self.documents += 1;
        if self.documents > 1 {
            return Err(fault(start, "a second document begins here; a plan file holds one"));
        }
        if versioned {
            return Err(fault(start, "leave the %YAML line out; plan files are YAML 1.2"));
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        start: Marker,
    ) -> Result<(), Fault> {
        let is_plain = style == ScalarStyle::Plain;
        if self.key_is_due() {
            if is_plain && text == "<<" {
                let detail = "merge keys (<<) are not part of YAML 1.2: write the fields out";
                return Err(fault(start, detail));
            }
            return self.key(text, anchor, start);
        }
        let json = if is_plain {
            scalar::plain(text).map_err(|detail| fault(start, detail))?
        } else {
            quoted(text)
        };
        let from = self.value(start);
        self.json.push_str(&json);
        self.remember(anchor, from);
        Ok(())
    }

    fn key_is_due(&self) -> bool {
        let shape = self.open.last().map(|open| &open.shape);
        matches!(shape, Some(Shape::Mapping { value_follows: false, .. }))
    }

    fn key(&mut self, text: &str, anchor: usize, start: Marker) -> Result<(), Fault> {
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        let Shape::Mapping { keys, value_follows } = &mut open.shape else { return Ok(()) };
        if !keys.insert(text.to_owned()) {
            return Err(fault(start, format!("the key {text:?} stands twice in one mapping")));
        }
        *value_follows = true;
        if !std::mem::replace(&mut open.empty, false) {
            self.json.push(',');
        }
        let from = self.json.len();
        self.marks.push((from, place(start)));
        self.json.push_str(&quoted(text));
        self.remember(anchor, from);
        self.json.push(':');
        Ok(())
    }

    /// Prepares the place of a value that begins at `start`; gives its offset.
    fn value(&mut self, start: Marker) -> usize {
        match self.open.last_mut() {
            Some(Collection { shape: Shape::Mapping { value_follows, .. }, .. }) => {
                *value_follows = false;
            }
            Some(open) if open.empty => open.empty = false,
            Some(_) => self.json.push(','),
            None => {}
        }
        self.marks.push((self.json.len(), place(start)));
        self.json.len()
    }

    fn open(
        &mut self,
        bracket: char,
        shape: Shape,
        anchor: usize,
        start: Marker,
    ) -> Result<(), Fault> {
        if self.key_is_due() {
            return Err(fault(start, "a key must be a text, not a list or a mapping"));
        }
        let from = self.value(start);
        self.json.push(bracket);
        self.open.push(Collection { shape, anchor, start: from, empty: true });
        Ok(())
    }

    fn close(&mut self) {
        if let Some(Collection { shape, anchor, start, .. }) = self.open.pop() {
            self.json.push(if matches!(shape, Shape::Sequence) { ']' } else { '}' });
            self.remember(anchor, start);
        }
    }

    fn remember(&mut self, anchor: usize, start: usize) {
        // 0 means that there is no anchor.
        if anchor > 0 {
            self.anchors.insert(anchor, (start, self.json.len()));
        }
    }

    fn alias(&mut self, anchor: usize, start: Marker) -> Result<(), Fault> {
        let Some(&(from, to)) = self.anchors.get(&anchor) else {
            return Err(fault(start, "the alias stands inside the value that it names"));
        };
        if self.key_is_due() {
            let key = serde_json::from_str::<String>(&self.json[from..to])
                .map_err(|_| fault(start, "a key must be a text, and this alias is none"))?;
            return self.key(&key, 0, start);
        }
        self.value(start);
        self.json.extend_from_within(from..to);
        Ok(())
    }
}
