//! Pools in the file: `[pools.NAME]`, each a table.

use std::time::Duration;

use annals_engine::Pool;
use annals_tasks_sdk::duration::parse_duration;
use annals_tasks_sdk::near;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::{Fault, article};
use super::values::bytes;

/// What a pool may say of itself.
const FIELDS: [&str; 7] =
    ["kinds", "slots", "threads", "niceness", "isolation", "memory", "cpu_time"];

/// Reads the pools of a file, in the order of their names. What cannot be had of them, such as a
/// kind that is not registered, is found out when an engine starts.
pub(super) fn read(value: &Spanned<DeValue<'_>>) -> Result<Vec<Pool>, Fault> {
    let what = "`pools` is a table of pools such as [pools.cpu]";
    let table = table(value, what)?;
    table.iter().map(|(name, value)| pool(name.get_ref(), value)).collect()
}

fn pool(name: &str, value: &Spanned<DeValue<'_>>) -> Result<Pool, Fault> {
    let table = table(value, &format!("`pools.{name}` is a table of its settings"))?;
    let mut pool = Pool::new(name);
    for (field, value) in table {
        let key = format!("pools.{name}.{}", field.get_ref());
        pool = match field.get_ref().as_ref() {
            "kinds" => pool.kinds(texts(&key, value)?),
            "slots" => pool.slots(number(&key, value)?),
            "threads" => pool.threads(number(&key, value)?),
            "niceness" => pool.niceness(number(&key, value)?),
            "isolation" => isolation(pool, &key, value)?,
            "memory" => pool.memory(text(&key, value, "512MiB", bytes)?),
            "cpu_time" => pool.cpu_time(text(&key, value, "10m", duration)?),
            other => {
                let (hint, fields) = (near::hint(other, FIELDS), FIELDS.join(", "));
                let detail = format!("there is no setting `{key}`{hint} (settings: {fields})");
                return Err(Fault { span: field.span(), detail });
            }
        };
    }
    Ok(pool)
}

fn table<'t, 'v>(value: &'v Spanned<DeValue<'t>>, what: &str) -> Result<&'v DeTable<'t>, Fault> {
    value.get_ref().as_table().ok_or_else(|| not(value, what))
}

fn number<N: std::str::FromStr>(key: &str, value: &Spanned<DeValue<'_>>) -> Result<N, Fault> {
    let integer = value.get_ref().as_integer().filter(|integer| integer.radix() == 10);
    let integer = integer.ok_or_else(|| not(value, &format!("`{key}` is a whole number")))?;
    let number = integer.as_str().parse();
    number.map_err(|_| Fault {
        span: value.span(),
        detail: format!("`{key}`: {integer} is not a number that it can be"),
    })
}

fn isolation(pool: Pool, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Pool, Fault> {
    match text(key, value, "process", |text| Ok(text.to_owned()))?.as_str() {
        "none" => Ok(pool),
        "process" => Ok(pool.isolated()),
        other => Err(Fault {
            span: value.span(),
            detail: format!("`{key}`: {other:?} is neither `process` nor `none`"),
        }),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// A value that is written as a text.
fn text<T>(
    key: &str,
    value: &Spanned<DeValue<'_>>,
    example: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, Fault> {
    let text = value.get_ref().as_str();
    let text = text.ok_or_else(|| not(value, &format!("`{key}` is a text such as {example:?}")))?;
    let fault = |detail| Fault { span: value.span(), detail: format!("`{key}`: {detail}") };
    read(text).map_err(fault)
}

fn texts(key: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Fault> {
    let what = format!("`{key}` is a list of texts such as [\"encode\"]");
    let items = value.get_ref().as_array().ok_or_else(|| not(value, &what))?;
    let text = |item: &Spanned<DeValue<'_>>| {
        item.get_ref().as_str().map(str::to_owned).ok_or_else(|| not(item, &what))
    };
    items.iter().map(text).collect()
}

/// The value is something else.
fn not(value: &Spanned<DeValue<'_>>, what: &str) -> Fault {
    let found = article(value.get_ref().type_str());
    Fault { span: value.span(), detail: format!("{what}, not {found}") }
}
