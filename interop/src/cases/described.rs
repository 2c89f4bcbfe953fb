//! What a test case is run with, for reports.

use std::fmt;

use serde::{Serialize, Serializer};
use tack_emulator::relay::Change;

use super::{Case, Conditions, DEFAULT, Path, WIFI_PROFILE, WIFI_RTT};

/// What a test case is run with.
#[derive(Clone, Debug, Serialize)]
pub struct Described {
    /// The name of the test case.
    pub test: &'static str,
    /// The link between the ends.
    pub link: DescribedLink,
    /// The files, in the order in which they are asked for.
    pub files: Vec<Files>,
}

/// A link with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum DescribedLink {
    /// A wire.
    Wire(Conditions),
    /// A Wi-Fi profile of tack-link.
    Wifi {
        /// The profile.
        profile: &'static str,
        /// The round-trip time in milliseconds.
        round_trip_ms: u64,
        /// Decides which packets are lost.
        seed: u64,
    },
}

/// Files of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Files {
    /// How many.
    pub count: usize,
    /// The size of each.
    pub bytes: usize,
}

impl Case {
    /// What it is run with.
    pub fn described(&self) -> Described {
        let link = match self.path {
            Path::Wire(conditions) => DescribedLink::Wire(conditions),
            Path::Wifi => DescribedLink::Wifi {
                profile: WIFI_PROFILE,
                round_trip_ms: WIFI_RTT.as_millis() as u64,
                seed: DEFAULT.seed,
            },
        };
        let alike = self.files.chunk_by(|one, other| one == other);
        let files = alike.map(|files| Files { count: files.len(), bytes: files[0] }).collect();
        Described { test: self.name, link, files }
    }
}

/// One line.
impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.link {
            DescribedLink::Wire(conditions) => wire(f, conditions)?,
            DescribedLink::Wifi { profile, round_trip_ms, seed } => {
                write!(f, "Wi-Fi {profile}, {round_trip_ms} ms there and back, seed {seed}")?;
            }
        }
        for (at, Files { count, bytes }) in self.files.iter().enumerate() {
            let before = if at == 0 { "; " } else { " + " };
            let times = if *count > 1 { format!("{count} × ") } else { String::new() };
            write!(f, "{before}{times}{bytes}")?;
        }
        f.write_str(" bytes")
    }
}

/// What a wire does besides is said only where it does it.
fn wire(f: &mut fmt::Formatter<'_>, conditions: &Conditions) -> fmt::Result {
    let Conditions { delay_ms, rate_mbps, queue_packets, seed, longest_run, .. } = conditions;
    write!(
        f,
        "{delay_ms} ms each way, {rate_mbps} Mbit/s, a queue of {queue_packets} packets, seed {seed}"
    )?;
    for (share, what) in [
        (conditions.loss, "lost"),
        (conditions.corrupt, "corrupted"),
        (conditions.reorder, "overtaken"),
        (conditions.duplicate, "doubled"),
    ] {
        if share > 0.0 {
            write!(f, ", {:.1} % {what}", 100.0 * share)?;
        }
    }
    if conditions.loss + conditions.corrupt > 0.0 {
        write!(f, " ({longest_run} in a row at most)")?;
    }
    if let Some(largest) = conditions.largest_datagram {
        write!(f, ", datagrams of {largest} bytes at most")?;
    }
    for (start, length) in conditions.deaf_ms {
        write!(f, ", nothing arrives from {start} to {} ms", start + length)?;
    }
    for (start, length) in conditions.peer_muted_ms {
        write!(f, ", nothing of the peer arrives from {start} to {} ms", start + length)?;
    }
    if !conditions.omitted_to_server.is_empty() {
        write!(f, ", packets {:?} to the server lost", conditions.omitted_to_server)?;
    }
    for at in conditions.rebound_ms {
        write!(f, ", another {} at {at} ms", change_name(conditions.change))?;
    }
    if conditions.ipv6 {
        f.write_str(", IPv6")?;
    }
    Ok(())
}

const fn change_name(change: Change) -> &'static str {
    match change {
        Change::Port => "port",
        Change::Address => "address",
    }
}

/// Writes what changes with a client's address.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub fn serialize_change<S: Serializer>(
    change: &Change,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(change_name(*change))
}

#[cfg(test)]
mod tests {
    use crate::cases::by_name;

    fn line(test: &str) -> String {
        by_name(test).unwrap().described().to_string()
    }

    #[test]
    fn a_test_case_is_described_by_its_link_its_seed_and_its_files() {
        let link = "15 ms each way, 10 Mbit/s, a queue of 25 packets, seed 1";
        assert_eq!(line("transfer"), format!("{link}; 524288 + 1048576 + 2097152 bytes"));
        assert_eq!(line("multiplexing"), format!("{link}; 1999 × 32 bytes"));
        assert!(line("transferloss").contains("2.0 % lost (3 in a row at most)"));
        assert!(line("rebind-addr").contains(", another address at 1000 ms, another"));
        assert!(line("blackhole").contains("nothing arrives from 1000 to 3000 ms"));
        assert_eq!(
            line("ackfrequency"),
            "Wi-Fi n, 40 ms there and back, seed 1; 50331648 bytes"
        );
    }

    #[test]
    fn its_json_has_every_parameter_of_the_link() {
        let json = serde_json::to_value(by_name("rebind-addr").unwrap().described()).unwrap();
        assert_eq!(json["test"], "rebind-addr");
        assert_eq!(json["link"]["kind"], "wire");
        assert_eq!(json["link"]["delay_ms"], 15);
        assert_eq!(json["link"]["seed"], 1);
        assert_eq!(json["link"]["change"], "address");
        assert_eq!(json["files"][0]["bytes"], 4 << 20);
        let json = serde_json::to_value(by_name("ackfrequency").unwrap().described()).unwrap();
        assert_eq!(json["link"]["profile"], "n");
        assert_eq!(json["link"]["round_trip_ms"], 40);
    }
}
