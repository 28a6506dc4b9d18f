//! How single settings are read from text.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use annals_engine::kinds::{AllowedTarget, BadTarget};
use annals_tasks_sdk::duration::parse_duration;

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// Whether something that is dangerous or unusual is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// It is.
    Allowed,
    /// It is not.
    Refused,
}

impl Served {
    pub(crate) fn is_allowed(self) -> bool {
        self == Self::Allowed
    }
}

pub(super) fn format(text: &str) -> Result<LogFormat, String> {
    match text {
        "pretty" => Ok(LogFormat::Pretty),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("{text:?} is no format; it is `pretty` or `json`")),
    }
}

pub(super) fn served(text: &str) -> Result<Served, String> {
    match text {
        "true" => Ok(Served::Allowed),
        "false" => Ok(Served::Refused),
        _ => Err(format!("{text:?} is neither `true` nor `false`")),
    }
}

/// An address to listen on. Whoever reaches it may do anything, as long as there is nothing that
/// tells callers apart; so it must be one that only this machine reaches.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let local =
        text.strip_prefix("localhost:").map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST));
    let address = local.as_deref().unwrap_or(text).parse::<SocketAddr>();
    let address = address.map_err(|_| {
        format!("{text:?} is no address; write one as 127.0.0.1:7117 or [::1]:7117")
    })?;
    if is_of_this_machine(address.ip()) {
        return Ok(address);
    }
    Err(format!(
        "{address} can be reached from other machines, and nobody has to show who they are: the \
         server listens on loopback addresses only, such as 127.0.0.1:{port}; put a proxy that \
         authenticates in front of it",
        port = address.port()
    ))
}

fn is_of_this_machine(address: IpAddr) -> bool {
    // `::ffff:127.0.0.1` is 127.0.0.1.
    address.to_canonical().is_loopback()
}

/// A duration that something may take: not nothing, and not so long that sums overflow.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("it must be longer than nothing".into()),
        Ok(patience) if patience > Duration::from_hours(24) => {
            Err(format!("{text:?} is longer than a day"))
        }
        Ok(patience) => Ok(patience),
        Err(error) => Err(error.to_string()),
    }
}

/// A number from 1 on.
pub(super) fn count<N: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<N, String> {
    let number = text.parse::<N>().ok().filter(|number| *number >= N::from(1));
    number.ok_or_else(|| format!("{text:?} is no whole number from 1 on"))
}

/// Units of sizes, in bytes.
const UNITS: [(&str, u64); 5] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("B", 1)];

/// A number of bytes: `128MiB`, `1 GiB`, `0B`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = UNITS.iter().find(|(name, _)| *name == unit.trim_start());
    let size = unit.and_then(|(_, bytes)| number.parse::<u64>().ok()?.checked_mul(*bytes));
    size.ok_or_else(|| format!("{text:?} is no size; write it as 128MiB, 2GiB or 0B"))
}

/// What `http` tasks may reach.
pub(super) fn targets(text: &str) -> Result<Vec<AllowedTarget>, String> {
    let targets = text.split(',').map(str::trim).filter(|target| !target.is_empty());
    targets.map(|target| target.parse().map_err(|error: BadTarget| error.to_string())).collect()
}

/// A filter of log lines.
pub(super) fn filter(text: &str) -> Result<String, String> {
    match tracing_subscriber::EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!(
            "{text:?} is no filter: {error}; write it as info, or as \
                                   warn,annals=debug"
        )),
    }
}
