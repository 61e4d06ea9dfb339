//! Distinguishes public internet addresses from those of this machine, of its network, and from
//! addresses that embed one of these.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether the address is public.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        // Carrier-grade NAT, protocol assignments, 6to4 relays, benchmarks, reserved.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Mapped, compatible, NAT64 and 6to4 addresses embed IPv4 addresses.
        [0, 0, 0, 0, 0, 0xffff, high, low] => embedded(high, low),
        [0, 0, 0, 0, 0, 0, ..] => false,
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x64, 0xff9b, ..] => false,
        [0x2002, high, low, ..] => embedded(high, low),
        // Global unicast is 2000::/3, except Teredo, benchmarks, documentation and ORCHID.
        [0x2001, second, ..] => second > 0x01ff && second != 0x0db8,
        [0x3fff, second, ..] => second > 0x0fff,
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |text: &str, expect: bool| {
            assert_eq!(is_public(text.parse().unwrap()), expect, "{text}");
        };
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2400::1",
        ] {
            check(public, true);
        }
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.0.1",
            "192.0.0.170",
            "192.0.2.1",
            "198.18.0.1",
            "198.19.0.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "192.88.99.1",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2002:a00:1::",
            "2001::1",
            "2001:db8::1",
            "2001:20::1",
            "fec0::1",
            "3fff::1",
            "4000::1",
            "100::1",
        ] {
            check(private, false);
        }
    }
}
