//! What one party can be assumed to have of addresses.

use std::net::IpAddr;

/// An IPv4 address, or the first 64 bits of an IPv6 address: a customer has 2^64 of these. A server that limits what
/// one party gets counts by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    bits: u64,
    is_v6: bool,
}

impl Network {
    /// The network of an address; an IPv4 address that is mapped into IPv6 is that IPv4 address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self { bits: v4.to_bits().into(), is_v6: false },
            IpAddr::V6(v6) => Self { bits: (v6.to_bits() >> 64) as u64, is_v6: true },
        }
    }

    /// This network, and those of the first 56 and of the first 48 bits of an IPv6 address: some customers have
    /// so many networks.
    pub(crate) fn with_wider(self) -> [Self; 3] {
        let without = |bits| if self.is_v6 { self.bits >> bits << bits } else { self.bits };
        [0, 8, 16].map(|bits| Self { bits: without(bits), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str) -> Network {
        Network::of(address.parse().unwrap())
    }

    #[test]
    fn an_ipv4_address_is_a_network_of_its_own_and_of_ipv6_the_first_half_counts() {
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:0:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("0.0.0.1"), of("0:0:0:1::"));
    }

    #[test]
    fn wider_networks_of_ipv6_are_those_of_56_and_48_bits_and_ipv4_has_none() {
        let v6 = of("2001:db8:1:2345::1").with_wider();
        assert_eq!(v6, [of("2001:db8:1:2345::"), of("2001:db8:1:2300::"), of("2001:db8:1::")]);
        assert_eq!(of("192.0.2.1").with_wider(), [of("192.0.2.1"); 3]);
    }
}
