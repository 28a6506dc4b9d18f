//! Where requests may go.

use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

use super::address::{Network, canonical, not_public};

/// What `http` tasks may reach beside public addresses.
///
/// ```
/// use annals_engine::kinds::AllowedTarget;
/// for text in ["10.0.0.0/8", "::1", "wiki.example", "private"] {
///     assert_eq!(text.parse::<AllowedTarget>()?.to_string(), text);
/// }
/// assert!("10.0.0.0/33".parse::<AllowedTarget>().is_err());
/// # Ok::<(), annals_engine::kinds::BadTarget>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedTarget(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Everything,
    Host(Box<str>),
    Network(Network),
}

impl AllowedTarget {
    /// Every address, of this machine and its networks too: `private` as text.
    pub const PRIVATE: Self = Self(Kind::Everything);
}

/// Why a text names no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no target: {reason}")]
pub struct BadTarget {
    /// The text as it was given, its first 64 characters.
    pub text: String,
    /// What is wrong, as a sentence.
    pub reason: String,
}

/// A host by its name, whatever address that has (`wiki.example`); an address (`10.1.2.3`, `::1`);
/// a network (`10.0.0.0/8`); or `private`, which is everything.
impl FromStr for AllowedTarget {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let bad = |reason: String| BadTarget { text: text.chars().take(64).collect(), reason };
        if text == "private" {
            return Ok(Self::PRIVATE);
        }
        let (base, prefix) =
            text.split_once('/').map_or((text, None), |(base, it)| (base, Some(it)));
        if let Ok(base) = base.parse::<IpAddr>() {
            let width = Network::width(base);
            let prefix = prefix.map_or(Some(width), number);
            let prefix = prefix.filter(|prefix| *prefix <= width);
            let prefix =
                prefix.ok_or_else(|| bad(format!("its prefix is no number to {width}")))?;
            if prefix == width && canonical(base) != base {
                return Ok(Self(Kind::Network(Network::new(canonical(base), 32))));
            }
            return Ok(Self(Kind::Network(Network::new(base, prefix))));
        }
        let hint = "write a host's name, an address, a network such as 10.0.0.0/8, or private";
        // What the parser makes of it is what the host of a request will be compared with.
        let url = Url::parse(&format!("http://{text}/")).map_err(|_| bad(hint.to_owned()))?;
        let alone = prefix.is_none() && !text.contains(['@', '?', '#', ':', '\\']);
        match url.domain().filter(|_| alone) {
            Some(name) => Ok(Self(Kind::Host(plain(name).into()))),
            None => Err(bad(hint.to_owned())),
        }
    }
}

impl std::fmt::Display for AllowedTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Everything => f.write_str("private"),
            Kind::Host(name) => f.write_str(name),
            Kind::Network(Network { base, prefix }) if *prefix == Network::width(*base) => {
                write!(f, "{base}")
            }
            Kind::Network(Network { base, prefix }) => write!(f, "{base}/{prefix}"),
        }
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// A name with a dot at its end is the same name.
fn plain(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// Where a request was not let go.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host:?} {what}; http tasks reach only public addresses unless a setting allows more")]
pub(super) struct NotAllowed {
    host: Box<str>,
    what: String,
}

/// Where requests may go.
#[derive(Debug, Clone, Default)]
pub(super) struct Targets {
    allowed: Vec<AllowedTarget>,
}

impl Targets {
    pub(super) fn new(allowed: Vec<AllowedTarget>) -> Self {
        Self { allowed }
    }

    /// Looks at a URL whose host is an address: nothing is resolved for it.
    pub(super) fn check(&self, url: &Url) -> Result<(), NotAllowed> {
        let host = url.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match address.ok().and_then(|address| self.objection(address)) {
            Some(word) => Err(NotAllowed { host: host.into(), what: format!("is {word} address") }),
            None => Ok(()),
        }
    }

    /// Those of a name's addresses that may be connected to.
    pub(super) fn filter<A>(&self, name: &str, addresses: A) -> Result<Vec<IpAddr>, NotAllowed>
    where
        A: Iterator<Item = IpAddr>,
    {
        let is_named =
            |one: &AllowedTarget| matches!(&one.0, Kind::Host(its) if **its == *plain(name));
        if self.allowed.iter().any(is_named) {
            return Ok(addresses.collect());
        }
        let (mut kept, mut objection) = (Vec::new(), None);
        for address in addresses {
            match self.objection(address) {
                None => kept.push(address),
                Some(word) => objection = Some(word),
            }
        }
        match objection.filter(|_| kept.is_empty()) {
            Some(word) => {
                Err(NotAllowed { host: name.into(), what: format!("has {word} address") })
            }
            None => Ok(kept),
        }
    }

    fn objection(&self, address: IpAddr) -> Option<&'static str> {
        let word = not_public(address)?;
        let address = canonical(address);
        let allows = |one: &AllowedTarget| match &one.0 {
            Kind::Everything => true,
            Kind::Network(network) => network.contains(address),
            Kind::Host(_) => false,
        };
        (!self.allowed.iter().any(allows)).then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(allowed: &[&str]) -> Targets {
        Targets::new(allowed.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn passes(allowed: &[&str], url: &str) -> bool {
        targets(allowed).check(&Url::parse(url).unwrap()).is_ok()
    }

    #[test]
    fn addresses_in_disguise_are_known() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://127.0.0.1./",
            "http://%31%32%37.0.0.1/",
            "http://１２７.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://[::127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://0/",
            "http://169.254.169.254/latest/meta-data",
        ] {
            assert!(!passes(&[], url), "{url}");
            assert!(passes(&["private"], url), "{url}");
        }
        assert!(passes(&[], "http://8.8.8.8/"));
        assert!(passes(&[], "http://[2606:4700::1]/"));
    }

    #[test]
    fn networks_open_what_is_in_them_and_no_more() {
        let allowed = ["127.0.0.0/8", "::1", "::ffff:10.0.0.1"];
        assert!(passes(&allowed, "http://127.9.9.9/"));
        assert!(passes(&allowed, "http://[::ffff:127.0.0.1]/"));
        assert!(passes(&allowed, "http://[::1]/"));
        assert!(passes(&allowed, "http://10.0.0.1/"));
        assert!(!passes(&allowed, "http://10.0.0.2/"));
        assert!(!passes(&allowed, "http://[::2]/"));
        assert!(!passes(&allowed, "http://[64:ff9b::7f00:1]/"));
    }

    #[test]
    fn a_name_keeps_those_of_its_addresses_that_are_allowed() {
        let addresses = || ["10.0.0.1", "8.8.8.8", "::1"].map(|one| one.parse().unwrap());
        let kept = |allowed: &[&str], name: &str, count: usize| {
            targets(allowed).filter(name, addresses().into_iter().take(count))
        };
        assert_eq!(kept(&[], "a.example", 3).unwrap(), [addresses()[1]]);
        assert_eq!(kept(&["10.0.0.0/8"], "a.example", 3).unwrap(), addresses()[..2]);
        assert_eq!(kept(&["A.Example."], "a.example", 3).unwrap(), addresses());
        assert_eq!(kept(&["a.example"], "a.example.", 3).unwrap(), addresses());
        assert_eq!(kept(&["a.example"], "b.a.example", 3).unwrap(), [addresses()[1]]);
        let error = kept(&["b.example"], "a.example", 1).unwrap_err().to_string();
        assert!(error.starts_with("\"a.example\" has a private address; "), "{error}");
        assert!(kept(&[], "a.example", 0).unwrap().is_empty());
    }

    #[test]
    fn what_names_no_target_is_told_so() {
        let table = [
            "",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "::/129",
            "a.example/8",
            "a b",
            "http://a.example",
            "a.example:80",
            "user@a.example",
            "10.0.0",
            "a.example?x",
            "[::1]",
        ];
        for text in table {
            let error = text.parse::<AllowedTarget>().expect_err(text);
            assert!(error.to_string().contains("is no target"), "{error}");
        }
    }
}
