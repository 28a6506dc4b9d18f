//! Which addresses are public: those that IANA's registries give to hosts of the internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks of version 4 that are not public, with the word for what they are.
const SPECIAL_4: [(Ipv4Addr, u32, &str); 15] = [
    (Ipv4Addr::UNSPECIFIED, 8, "an unspecified"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "a shared"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "a loopback"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "a link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "a reserved"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "a documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a reserved"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "a benchmark"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "a documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "a documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "a multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "a reserved"),
];

/// The same of version 6. Outside of `2000::/3` nothing is public, and these only give it a name.
const SPECIAL_6: [(Ipv6Addr, u32, &str); 9] = [
    (Ipv6Addr::UNSPECIFIED, 128, "an unspecified"),
    (Ipv6Addr::LOCALHOST, 128, "a loopback"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "a private"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "a link-local"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "a private"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "a multicast"),
    // Protocols' own, Teredo among them.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "a reserved"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "a documentation"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "a documentation"),
];

const GLOBAL_6: Network = Network::new(IpAddr::V6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0)), 3);
const NAT64: Network = Network::new(IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0)), 96);
const SIX_TO_FOUR: Network =
    Network::new(IpAddr::V6(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0)), 16);

/// The addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) base: IpAddr,
    pub(super) prefix: u32,
}

impl Network {
    pub(super) const fn new(base: IpAddr, prefix: u32) -> Self {
        Self { base, prefix }
    }

    /// The bits of an address of this version.
    pub(super) const fn width(address: IpAddr) -> u32 {
        if address.is_ipv4() { 32 } else { 128 }
    }

    pub(super) fn contains(self, address: IpAddr) -> bool {
        let width = Self::width(self.base);
        let differs = bits(self.base) ^ bits(address);
        let beyond = width - self.prefix.min(width);
        width == Self::width(address) && differs.checked_shr(beyond).unwrap_or(0) == 0
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address to which a connection to this one goes: one of version 4 may be written as one of
/// version 6.
pub(super) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// What sort of address it is, as in "a loopback address", where it is not public.
pub(super) fn not_public(address: IpAddr) -> Option<&'static str> {
    match canonical(address) {
        IpAddr::V4(address) => not_public_4(address),
        IpAddr::V6(address) => not_public_6(address),
    }
}

fn not_public_4(address: Ipv4Addr) -> Option<&'static str> {
    let of = |(base, prefix, _): &&(Ipv4Addr, u32, &str)| {
        Network::new((*base).into(), *prefix).contains(address.into())
    };
    SPECIAL_4.iter().find(of).map(|(_, _, word)| *word)
}

fn not_public_6(address: Ipv6Addr) -> Option<&'static str> {
    let of = |(base, prefix, _): &&(Ipv6Addr, u32, &str)| {
        Network::new((*base).into(), *prefix).contains(address.into())
    };
    if let Some((_, _, word)) = SPECIAL_6.iter().find(of) {
        return Some(word);
    }
    let all = address.to_bits();
    // A gateway takes these to the address of version 4 that they hold.
    let embedded = if NAT64.contains(address.into()) {
        Some(all)
    } else if SIX_TO_FOUR.contains(address.into()) {
        Some(all >> 80)
    } else {
        None
    };
    match embedded {
        Some(bits) => {
            let low = u32::try_from(bits & u128::from(u32::MAX)).unwrap_or_default();
            not_public_4(Ipv4Addr::from_bits(low))
        }
        // The whole of what is not given out, addresses of version 4 in disguise among them.
        None => (!GLOBAL_6.contains(address.into())).then_some("a reserved"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(address: &str) -> Option<&'static str> {
        not_public(address.parse().unwrap())
    }

    #[test]
    fn addresses_of_the_internet_are_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "223.255.255.255",
            "2000::1",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert_eq!(word(address), None, "{address}");
        }
    }

    #[test]
    fn whatever_else_there_is_is_not() {
        for (address, expected) in [
            ("0.0.0.0", "an unspecified"),
            ("0.1.2.3", "an unspecified"),
            ("10.0.0.0", "a private"),
            ("10.255.255.255", "a private"),
            ("100.64.0.1", "a shared"),
            ("100.127.255.255", "a shared"),
            ("127.0.0.1", "a loopback"),
            ("127.255.255.255", "a loopback"),
            ("169.254.169.254", "a link-local"),
            ("172.16.0.1", "a private"),
            ("172.31.255.255", "a private"),
            ("192.0.0.8", "a reserved"),
            ("192.168.0.1", "a private"),
            ("198.19.255.255", "a benchmark"),
            ("203.0.113.9", "a documentation"),
            ("224.0.0.1", "a multicast"),
            ("239.255.255.255", "a multicast"),
            ("255.255.255.255", "a reserved"),
            ("::", "an unspecified"),
            ("::1", "a loopback"),
            ("::2", "a reserved"),
            ("::127.0.0.1", "a reserved"),
            ("::8.8.8.8", "a reserved"),
            ("::ffff:127.0.0.1", "a loopback"),
            ("::ffff:10.1.2.3", "a private"),
            ("::ffff:0:8.8.8.8", "a reserved"),
            ("64:ff9b::10.0.0.1", "a private"),
            ("64:ff9b::169.254.169.254", "a link-local"),
            ("64:ff9b:1::8.8.8.8", "a reserved"),
            ("100::1", "a reserved"),
            ("2001::1", "a reserved"),
            ("2001:db8::1", "a documentation"),
            ("2002:7f00:1::1", "a loopback"),
            ("2002:c0a8:1::1", "a private"),
            ("3fff:fff::1", "a documentation"),
            ("4000::1", "a reserved"),
            ("5f00::1", "a reserved"),
            ("fc00::1", "a private"),
            ("fdff::1", "a private"),
            ("fe80::1", "a link-local"),
            ("febf::1", "a link-local"),
            ("fec0::1", "a private"),
            ("ff02::1", "a multicast"),
        ] {
            assert_eq!(word(address), Some(expected), "{address}");
        }
    }

    #[test]
    fn networks_hold_what_begins_as_they_do() {
        let network = |base: &str, prefix| Network::new(base.parse().unwrap(), prefix);
        let holds = |network: Network, address: &str| network.contains(address.parse().unwrap());
        assert!(holds(network("0.0.0.0", 0), "255.1.2.3"));
        assert!(holds(network("::", 0), "ff02::1"));
        assert!(!holds(network("0.0.0.0", 0), "::1"));
        assert!(holds(network("10.1.2.3", 32), "10.1.2.3"));
        assert!(!holds(network("10.1.2.3", 32), "10.1.2.2"));
        assert!(holds(network("10.1.0.0", 15), "10.0.9.9"));
        assert!(!holds(network("10.1.0.0", 15), "10.2.0.0"));
        assert!(!holds(network("::", 128), "::1"));
    }
}
