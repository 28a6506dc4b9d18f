//! The file with settings.

use std::ops::Range;
use std::path::{Path, PathBuf};

use annals_engine::Pool;
use annals_tasks_sdk::near;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::key::{KEYS, Key, Shape};
use super::layers::{BadSetting, Settings};
use super::pools;

/// The file that is read where none is named, if it is there.
const USUAL: &str = "annals.toml";

/// What pools are called in it, which no flag or variable can say.
const POOLS: &str = "pools";

/// A file with settings that has been read: what it says, and where.
#[derive(Debug)]
pub(crate) struct File {
    path: PathBuf,
    said: Vec<(&'static Key, String, Place)>,
    pools: Vec<Pool>,
}

/// What is wrong at a part of a text, as a sentence.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) span: Range<usize>,
    pub(super) detail: String,
}

/// A place in a text, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
}

impl File {
    /// Reads the file at `named`, which must be there, or else the usual one, if that is there.
    pub(crate) fn read(named: Option<&Path>) -> Result<Option<Self>, BadSetting> {
        let path = named.unwrap_or(Path::new(USUAL));
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text).map(Some),
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(BadSetting {
                place: path.display().to_string(),
                detail: format!("it cannot be read: {error}"),
            }),
        }
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, BadSetting> {
        let bad = |at: Place, detail: String| BadSetting { place: at.of(path), detail };
        let table = DeTable::parse(text).map_err(|error| {
            let at = Place::in_text(text, &error.span().unwrap_or_default());
            bad(at, one_line(error.message()))
        })?;
        let (mut said, mut pools) = (Vec::new(), Vec::new());
        for (name, value) in table.get_ref() {
            if name.get_ref() == POOLS {
                pools = pools::read(value)
                    .map_err(|Fault { span, detail }| bad(Place::in_text(text, &span), detail))?;
                continue;
            }
            let key = KEYS.iter().find(|key| key.name == name.get_ref().as_ref());
            let Some(key) = key else {
                let at = Place::in_text(text, &name.span());
                return Err(bad(at, unknown(name.get_ref())));
            };
            let at = Place::in_text(text, &value.span());
            let value = in_words(key, value).map_err(|detail| bad(at, detail))?;
            said.push((key, value, at));
        }
        Ok(Self { path: path.to_owned(), said, pools })
    }

    /// The folder of the store that it names. A name that is relative is so to the file's folder.
    pub(crate) fn data(&self) -> Option<PathBuf> {
        let (.., text, _) = self.said.iter().find(|(key, ..)| key.name == "data")?;
        Some(self.path.parent().unwrap_or(Path::new("")).join(text))
    }

    pub(super) fn set(&self, settings: &mut Settings) -> Result<(), BadSetting> {
        for (key, text, at) in &self.said {
            (key.set)(settings, text).map_err(|detail| BadSetting {
                place: at.of(&self.path),
                detail: format!("`{}`: {detail}", key.name),
            })?;
        }
        settings.pools.clone_from(&self.pools);
        if let Some(data) = self.data() {
            settings.data = data;
        }
        Ok(())
    }
}

/// The text that a flag would have.
fn in_words(key: &Key, value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    match (key.shape, value.get_ref()) {
        (Shape::Text | Shape::List, DeValue::String(text)) => Ok(text.clone().into_owned()),
        (Shape::Number, DeValue::Integer(number)) if number.radix() == 10 => {
            Ok(number.as_str().to_owned())
        }
        (Shape::Switch, DeValue::Boolean(on)) => Ok(on.to_string()),
        (Shape::List, DeValue::Array(items)) if items.iter().all(|item| item.as_ref().is_str()) => {
            let texts = items.iter().filter_map(|item| item.as_ref().as_str());
            Ok(texts.collect::<Vec<_>>().join(","))
        }
        (shape, value) => {
            let wanted = match shape {
                Shape::Text => format!("a text such as \"{}\"", key.default),
                Shape::Number => "a whole number such as 64".to_owned(),
                Shape::Switch => "true or false".to_owned(),
                Shape::List => "a list of texts such as [\"localhost\"]".to_owned(),
            };
            Err(format!("`{}` is {wanted}, not {}", key.name, article(value.type_str())))
        }
    }
}

pub(super) fn article(noun: &str) -> String {
    let vowel = noun.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {noun}", if vowel { "an" } else { "a" })
}

fn unknown(name: &str) -> String {
    let names = || KEYS.iter().map(|key| key.name).chain([POOLS]);
    // Flags are written with dashes, so many will write names so.
    let hint = match names().find(|known| *known == name.replace('-', "_")) {
        Some(known) => format!("; did you mean `{known}`?"),
        None => near::hint(name, names()),
    };
    let names: Vec<_> = names().collect();
    format!("there is no setting `{name}`{hint} (settings: {})", names.join(", "))
}

fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(", ")
}

impl Place {
    fn in_text(text: &str, span: &Range<usize>) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
        Self { line, column }
    }

    fn of(self, path: &Path) -> String {
        format!("{}:{}:{}", path.display(), self.line, self.column)
    }
}
