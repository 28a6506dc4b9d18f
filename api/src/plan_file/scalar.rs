//! Plain scalars of YAML 1.2's core schema, as JSON. Digits stay as they are written.

/// What a plain scalar is in JSON, or why JSON cannot say it.
pub(super) fn plain(text: &str) -> Result<String, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok("null".into()),
        "true" | "True" | "TRUE" => return Ok("true".into()),
        "false" | "False" | "FALSE" => return Ok("false".into()),
        _ => {}
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err(format!("JSON has no number for {text}; write it in quotes to mean a text"));
    }
    if let Some(digits) = text.strip_prefix("0x").filter(|rest| all(rest, 16)) {
        return radix(text, digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o").filter(|rest| all(rest, 8)) {
        return radix(text, digits, 8);
    }
    match number(text, unsigned) {
        Some(result) => result,
        None => Ok(crate::json::quoted(text)),
    }
}

fn all(text: &str, radix: u32) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_digit(radix))
}

fn radix(text: &str, digits: &str, radix: u32) -> Result<String, String> {
    let number = u128::from_str_radix(digits, radix);
    number.map(|number| number.to_string()).map_err(|_| format!("{text} is too large a number"))
}

/// `[-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
fn number(text: &str, unsigned: &str) -> Option<Result<String, String>> {
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], &unsigned[at..]),
        None => (unsigned, ""),
    };
    if let Some(power) = exponent.get(1..) {
        let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
        if !all(digits, 10) {
            return None;
        }
    }
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let some = !whole.is_empty() || fraction.is_some_and(|fraction| !fraction.is_empty());
    if !some || !digits(whole) || !fraction.is_none_or(digits) {
        return None;
    }
    if whole.len() > 1 && whole.starts_with('0') {
        return Some(Err(format!(
            "{text} is ambiguous: YAML 1.2 reads it as decimal, YAML 1.1 as octal; write it \
             without the leading zeros, as 0o…, or in quotes to mean a text"
        )));
    }
    let sign = if text.starts_with('-') { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = match fraction {
        None => String::new(),
        // JSON wants a digit behind the point.
        Some("") => ".0".into(),
        Some(digits) => format!(".{digits}"),
    };
    Some(Ok(format!("{sign}{whole}{fraction}{exponent}")))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn the_core_schema_decides() {
        let table = [
            ("", "null"),
            ("~", "null"),
            ("True", "true"),
            ("yes", r#""yes""#),
            ("on", r#""on""#),
            ("0", "0"),
            ("-0", "-0"),
            ("+12", "12"),
            ("3544790567247868102", "3544790567247868102"),
            ("1.10", "1.10"),
            ("1.", "1.0"),
            (".5", "0.5"),
            ("-.5e-3", "-0.5e-3"),
            ("1e400", "1e400"),
            ("0x1F", "31"),
            ("0o17", "15"),
            ("1_000", r#""1_000""#),
            ("12:30:45", r#""12:30:45""#),
            ("2026-01-01", r#""2026-01-01""#),
            ("e5", r#""e5""#),
            (".", r#"".""#),
            ("-", r#""-""#),
            ("1.2.3", r#""1.2.3""#),
            ("1e", r#""1e""#),
            ("nan", r#""nan""#),
        ];
        for (text, json) in table {
            assert_eq!(plain(text).as_deref(), Ok(json), "{text}");
        }
        for text in [".inf", "-.inf", ".nan", "0755", "-007.5"] {
            assert!(plain(text).is_err(), "{text}");
        }
    }
}
