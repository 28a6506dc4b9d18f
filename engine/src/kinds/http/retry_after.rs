//! `Retry-After`: how long a server asks to be left alone.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// How long the server asks to wait; `None` where it does not, or says it in no way that is known.
///
/// A date is compared with the server's own, where it gives one: the clock here may be another.
pub(super) fn wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only digits are left, so the one way to fail is to be too large.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let its_now = headers.get(DATE).and_then(|date| date.to_str().ok());
    let its_now = its_now.and_then(|date| httpdate::parse_http_date(date).ok());
    // One that has passed asks for no wait.
    Some(date.duration_since(its_now.unwrap_or(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn asked(retry_after: &'static str, date: Option<&'static str>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static(retry_after));
        headers.extend(date.map(|date| (DATE, HeaderValue::from_static(date))));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        wait(&headers, now).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_and_dates_are_understood() {
        assert_eq!(asked("0", None), Some(0));
        assert_eq!(asked(" 120 ", None), Some(120));
        assert_eq!(asked("99999999999999999999999", None), Some(u64::MAX));
        let later = "Sun, 06 Nov 1994 08:50:37 GMT";
        assert_eq!(asked(later, None), Some(60));
        assert_eq!(asked(later, Some("Sun, 06 Nov 1994 08:50:07 GMT")), Some(30));
        assert_eq!(asked(later, Some("soon")), Some(60));
        assert_eq!(asked(later, Some("Sun, 06 Nov 1994 09:00:00 GMT")), Some(0));
        assert_eq!(asked("Sunday, 06-Nov-94 08:50:37 GMT", None), Some(60));
        assert_eq!(asked("Sun Nov  6 08:50:37 1994", None), Some(60));
        assert_eq!(asked("Sun, 06 Nov 1994 08:00:00 GMT", None), Some(0));
        for text in ["", "soon", "-5", "1.5", "5s", "Sun, 99 Nov 1994 08:50:37 GMT"] {
            assert_eq!(asked(text, None), None, "{text}");
        }
        assert_eq!(wait(&HeaderMap::new(), SystemTime::UNIX_EPOCH), None);
    }
}
