//! Requests as they may be shown: to people, in logs, in errors.

use std::fmt;

use reqwest::Url;

use super::input::Message;

/// A longer URL is cut.
const URL_MAX: usize = 500;

/// A URL without its userinfo, its query and its fragment: secrets stand there.
pub(super) struct Plain<'a>(pub(super) &'a Url);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(url) = self;
        write!(f, "{}://{}", url.scheme(), url.host_str().unwrap_or_default())?;
        if let Some(port) = url.port() {
            write!(f, ":{port}")?;
        }
        // What the parser of URLs gives is ASCII.
        match url.path().get(..URL_MAX) {
            Some(beginning) => write!(f, "{beginning}..."),
            None => f.write_str(url.path()),
        }
    }
}

/// `POST https://host/path`.
pub(super) struct Line<'a>(pub(super) &'a Message);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.method, Plain(&self.0.url))
    }
}

/// A number with a comma after each thousand: `1,048,576`.
pub(super) struct Count(pub(super) usize);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.char_indices() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::Method;

    #[test]
    fn what_may_hold_secrets_is_not_shown() {
        let shown = |url: &str| {
            let url = Url::parse(url).unwrap();
            let message =
                Message { method: Method::PUT, url, headers: [].into_iter().collect(), body: None };
            Line(&message).to_string()
        };
        let secret = "https://ada:s3cret@a.example:8443/b/c?token=s3cret#s3cret";
        assert_eq!(shown(secret), "PUT https://a.example:8443/b/c");
        assert_eq!(shown("http://[::1]:80"), "PUT http://[::1]/");
        let long = shown(&format!("http://a.example/{}", "ä".repeat(1_000)));
        assert!(long.len() < 600 && long.ends_with("..."), "{long}");
    }

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_048_576, "1,048,576")] {
            assert_eq!(Count(number).to_string(), text);
        }
    }
}
