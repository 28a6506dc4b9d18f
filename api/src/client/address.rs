//! Where a server is.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

/// The address of a server: an `http` or `https` URL, with a path where it is served below one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address(Url);

impl Address {
    /// The URL of something below the base path of the API.
    pub(super) fn api(&self, path: &[String]) -> Url {
        let mut url = self.0.clone();
        // URLs of http and https have a path.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        url
    }

    /// Whether it is this machine. What the environment says of proxies is not about that.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match address {
            Ok(address) => address.is_loopback(),
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = "a server is named by a URL such as http://127.0.0.1:7117";
        let bad = |why: &str| format!("{why}; {rule}");
        // `127.0.0.1:7117` and `localhost:7117` are what people type.
        let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&full).map_err(|error| bad(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad(&format!("{:?} is not spoken here", url.scheme())));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("it ends with its path"));
        }
        Ok(Self(url))
    }
}

/// Without its password, because this is shown.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.0.clone();
        if url.password().is_some() {
            // URLs of http and https may have one.
            let _ = url.set_password(None);
        }
        f.write_str(url.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_are_read_as_people_type_them() {
        for (text, shown) in [
            ("http://127.0.0.1:7117", "http://127.0.0.1:7117"),
            ("127.0.0.1:7117", "http://127.0.0.1:7117"),
            ("localhost:7117/", "http://localhost:7117"),
            ("[::1]:7117", "http://[::1]:7117"),
            ("https://jobs.example/annals/", "https://jobs.example/annals"),
            ("https://ada:secret@jobs.example", "https://ada@jobs.example"),
        ] {
            assert_eq!(address(text).to_string(), shown);
        }
        for text in ["", "http://", "ftp://host", "http://host/?q", "http://host/#f", "a b"] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains("http://127.0.0.1:7117"), "{text}: {error}");
        }
    }

    #[test]
    fn paths_lie_below_the_base_and_are_escaped() {
        let path = ["jobs", "a/b", "ü %"].map(String::from);
        let url = address("http://host").api(&path);
        assert_eq!(url.as_str(), "http://host/api/v1/jobs/a%2Fb/%C3%BC%20%25");
        let url = address("http://host/below/").api(&path[..1]);
        assert_eq!(url.as_str(), "http://host/below/api/v1/jobs");
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        for (text, loopback) in [
            ("127.0.0.1:1", true),
            ("127.8.8.8", true),
            ("[::1]:1", true),
            ("LOCALHOST", true),
            ("localhost.example", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(address(text).is_loopback(), loopback, "{text}");
        }
    }
}
