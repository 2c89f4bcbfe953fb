//! The description of a link as people write it.

use serde::de::IntoDeserializer;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use crate::wlan::{Preamble, Profile};

/// A description, as it was given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_rtt_ms: Option<f64>,
    #[serde(default)]
    pub hop: Vec<HopTable>,
}

/// One hop, as it was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum HopTable {
    Pipe(Box<PipeTable>),
    Wlan(WlanTable),
}

/// What holds for both directions of a pipe, and the tables of what is different in one of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PipeTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_trace: Option<TraceTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_trace: Option<TraceTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_trace: Option<TraceTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_bdp: Option<f64>,
    /// Start in seconds, length in milliseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bleach_ecn: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliottTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<ReorderTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Box<PipeTable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse: Option<Box<PipeTable>>,
}

/// A queue discipline with its default parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum QueueName {
    DropTail,
    Codel,
    FqCodel,
    Dualpi2,
}

/// A value that changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TraceTable {
    /// From which second on which value holds.
    pub steps: Vec<[f64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat_s: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GilbertElliottTable {
    pub p: f64,
    pub r: f64,
    #[serde(default)]
    pub loss_good: f64,
    #[serde(default = "certain")]
    pub loss_bad: f64,
}

const fn certain() -> f64 {
    1.0
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReorderTable {
    pub probability: f64,
    pub delay_ms: f64,
}

/// A WLAN, as it was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WlanTable {
    pub profile: Profile,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preamble: Option<Preamble>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cw_min: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cw_max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ampdu_bytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate_acks: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpdu_error_rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_mbps: Option<f64>,
    /// As those of a pipe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<[f64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_packets: Option<u32>,
}

impl WlanTable {
    pub(super) const fn new(profile: Profile) -> Self {
        Self {
            profile,
            preamble: None,
            cw_min: None,
            cw_max: None,
            ampdu_bytes: None,
            aggregate_acks: None,
            mpdu_error_rate: None,
            uplink: None,
            hops: None,
            background: None,
            background_mbps: None,
            pauses: Vec::new(),
            buffer_bytes: None,
            buffer_packets: None,
        }
    }
}

/// Reads TOML.
///
/// Serde reads a tagged enum like [`HopTable`] into a buffer first, and forgets where in the file
/// things were. So the kinds of the hops are read first and then each hop as what it is: errors
/// show the line that they are in.
pub(super) fn parse(text: &str) -> Result<LinkTable, Error> {
    read(text).map_err(|mut error| {
        error.set_input(Some(text));
        error
    })
}

fn read(text: &str) -> Result<LinkTable, Error> {
    let document = DeTable::parse(text)?;
    let hops = document.get_ref().get("hop").cloned();
    let head = Head::deserialize(document.into_deserializer())?;
    let hops = hops.map(Spanned::into_inner);
    let hops = hops.as_ref().and_then(DeValue::as_array).into_iter().flatten();
    let hop = head.hop.iter().zip(hops).map(|(hop, fields)| hop.kind.read(fields.clone()));
    Ok(LinkTable {
        name: head.name,
        default_rtt_ms: head.default_rtt_ms,
        hop: hop.collect::<Result<_, _>>()?,
    })
}

/// As [`LinkTable`], but for what is in the hops.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    name: Option<String>,
    default_rtt_ms: Option<f64>,
    #[serde(default)]
    hop: Vec<HopHead>,
}

#[derive(Deserialize)]
struct HopHead {
    kind: Kind,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Pipe,
    Wlan,
}

impl Kind {
    fn read(self, mut fields: Spanned<DeValue<'_>>) -> Result<HopTable, Error> {
        if let DeValue::Table(fields) = fields.get_mut() {
            fields.remove("kind");
        }
        let fields = fields.into_deserializer();
        match self {
            Self::Pipe => Box::deserialize(fields).map(HopTable::Pipe),
            Self::Wlan => WlanTable::deserialize(fields).map(HopTable::Wlan),
        }
    }
}
