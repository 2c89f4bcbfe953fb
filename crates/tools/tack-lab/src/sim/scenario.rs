//! What is run: flows over a link, in virtual time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tack_link::spec::{LinkSpec, PathSpec};
use tacklib::{CcParameters, Deviation, Deviations, Ecn, Profile};

/// Flows that share a link.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The link that all of them share.
    pub link: LinkSpec,
    /// The flows, in the order in which they are reported.
    pub flows: Vec<Flow>,
    /// Virtual time from the start to the end of the run.
    pub duration: Duration,
    /// Left out of all counts and rates at the start of each flow. Zero for the whole flow,
    /// handshake and start-up included.
    pub warm_up: Duration,
    /// Width of the bins of [`FlowReport::timeline`](super::FlowReport::timeline).
    pub bin: Duration,
    /// Seed of the link and of the endpoints.
    pub seed: u64,
}

/// One connection, and the data that its server sends to its client; with [`Load::TwoWay`] the
/// client sends as well, with [`Load::Applications`] whatever they say.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The end that accepts the connection.
    pub server: EndConfig,
    /// The end that connects.
    pub client: EndConfig,
    /// Delay and losses of this flow's own part of the path.
    pub path: PathSpec,
    /// UDP payload of a full packet in bytes, 1200 to 1472.
    pub udp_payload: usize,
    /// When the client connects.
    pub start: Duration,
    /// How much is sent.
    pub load: Load,
}

/// The stack at one end of a connection, and how it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndConfig {
    /// The QUIC stack.
    pub stack: Stack,
    /// When this end acknowledges.
    pub acks: Acks,
    /// The congestion control of what it sends.
    pub congestion: Congestion,
    /// Defaults of the TACK stack.
    pub profile: Profile,
    /// Whether TACK samples round trips as TCP's timestamps do.
    pub plain_sampling: bool,
    /// Where the controller of TACK differs from the BBR draft.
    pub deviations: Deviations,
    /// How late it reads and sends on average, because its machine has other work.
    pub busy: Duration,
    /// Whether the TACK stack is told when a datagram came, and not only when it was read.
    pub arrival_times: bool,
    /// What its packets are marked with. An end that is [`Ecn::Off`] does not read marks either.
    pub ecn: Ecn,
    /// What an earlier connection of a TACK stack observed of the path (RFC 9959).
    pub cc_parameters: Option<CcParameters>,
}

impl EndConfig {
    /// The stack as it comes.
    pub fn own(stack: Stack) -> Self {
        Self::new(stack, stack.own_acks(), stack.own_congestion())
    }

    /// The stack with a way to acknowledge and a congestion control.
    pub const fn new(stack: Stack, acks: Acks, congestion: Congestion) -> Self {
        Self {
            stack,
            acks,
            congestion,
            profile: Profile::Default,
            plain_sampling: false,
            deviations: Deviations::ALL,
            busy: Duration::ZERO,
            arrival_times: false,
            ecn: Ecn::Off,
            cc_parameters: None,
        }
    }

    /// Whether this end answers each packet by itself, also among others.
    pub(super) fn counts_strictly(&self) -> bool {
        self.stack == Stack::Tack && matches!(self.acks, Acks::Every(_))
    }
}

impl Stack {
    /// How it acknowledges when nobody chooses.
    pub const fn own_acks(self) -> Acks {
        match self {
            Self::Tack => Acks::Tack,
            Self::Plain | Self::Quinn => Acks::Delayed,
        }
    }

    /// Its congestion control when nobody chooses.
    pub const fn own_congestion(self) -> Congestion {
        match self {
            Self::Tack => Congestion::Bbr,
            Self::Plain | Self::Quinn => Congestion::Cubic,
        }
    }
}

impl Flow {
    /// A bulk flow of full-sized packets from the start to the end, with one stack at both ends.
    pub fn new(stack: Stack, acks: Acks, congestion: Congestion, path: PathSpec) -> Self {
        let end = EndConfig::new(stack, acks, congestion);
        Self::between(end, end, path)
    }

    /// A bulk flow of full-sized packets from the start to the end.
    pub const fn between(server: EndConfig, client: EndConfig, path: PathSpec) -> Self {
        Self {
            server,
            client,
            path,
            udp_payload: 1472,
            start: Duration::ZERO,
            load: Load::Bulk { stop: None },
        }
    }

    /// The same with ends that read and send so late on average.
    #[must_use]
    pub const fn with_busy_ends(mut self, late: Duration) -> Self {
        self.server.busy = late;
        self.client.busy = late;
        self
    }

    /// The same with ends that are told when datagrams came, and not only when they read them.
    #[must_use]
    pub const fn with_arrival_times(mut self) -> Self {
        self.server.arrival_times = true;
        self.client.arrival_times = true;
        self
    }

    /// The same with ends that mark their packets so, and read marks.
    #[must_use]
    pub const fn with_ecn(mut self, ecn: Ecn) -> Self {
        self.server.ecn = ecn;
        self.client.ecn = ecn;
        self
    }

    /// The same without a deviation of TACK's controller from the BBR draft.
    #[must_use]
    pub const fn without(mut self, deviation: Deviation) -> Self {
        self.server.deviations = self.server.deviations.without(deviation);
        self.client.deviations = self.client.deviations.without(deviation);
        self
    }

    /// The same with another profile where the stack is TACK.
    #[must_use]
    pub const fn with_profile(mut self, profile: Profile) -> Self {
        self.server.profile = profile;
        self.client.profile = profile;
        self
    }
}

/// A QUIC implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(clap::ValueEnum)]
pub enum Stack {
    /// tacklib.
    Tack,
    /// quiche, without our layer.
    Plain,
    /// quinn-proto.
    Quinn,
}

/// A receiver's way to acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acks {
    /// TACK with IACKs, all ranges in each TACK. Of the TACK stack only.
    Tack,
    /// TACK that acknowledges up to the packet behind the oldest bubble. Of the TACK stack only.
    TackPoor,
    /// TACK with the paper's parameters: L = 2, beta = 4, whatever the path. Of the TACK stack only.
    TackPaper,
    /// TACK at no shorter interval than that, from 1 ms on: half a round trip where that is longer.
    /// Of the TACK stack only.
    TackNoSooner(Duration),
    /// What the stack does by itself. For the TACK stack: every second packet, or after
    /// `max_ack_delay`, as RFC 9000 section 13.2.2 recommends; packets that arrive together are
    /// acknowledged once.
    Delayed,
    /// After that many packets, also when they arrive together; earlier only for one out of
    /// order, and when `max_ack_delay` has passed. quinn is asked for it by its ACK-frequency
    /// extension, and acknowledges packets that arrive together once.
    Every(u64),
    /// At that interval while data arrives.
    Periodic(Duration),
}

/// How an [`Acks`] is written.
const ACKS: &str = "tack, tack-poor, tack-paper, tack:MS (milliseconds between two at least, from 1), \
                    delayed, every:L (L packets, from 1) or periodic:MS";

impl fmt::Display for Acks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tack => f.write_str("tack"),
            Self::TackPoor => f.write_str("tack-poor"),
            Self::TackPaper => f.write_str("tack-paper"),
            Self::TackNoSooner(interval) => write!(f, "tack:{}", interval.as_secs_f64() * 1e3),
            Self::Delayed => f.write_str("delayed"),
            Self::Every(packets) => write!(f, "every:{packets}"),
            Self::Periodic(interval) => write!(f, "periodic:{}", interval.as_secs_f64() * 1e3),
        }
    }
}

impl FromStr for Acks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let interval = |ms: &str| {
            let ms = ms.parse().ok().filter(|ms| (1e-3..=60e3).contains(ms));
            ms.map(|ms: f64| Duration::from_secs_f64(ms / 1e3))
        };
        let acks = match text.split_once(':') {
            None => match text {
                "tack" => Some(Self::Tack),
                "tack-poor" => Some(Self::TackPoor),
                "tack-paper" => Some(Self::TackPaper),
                "delayed" => Some(Self::Delayed),
                _ => None,
            },
            Some(("every", packets)) => {
                packets.parse().ok().filter(|packets| *packets > 0).map(Self::Every)
            }
            Some(("tack", ms)) => {
                let from = Duration::from_millis(1);
                interval(ms).filter(|interval| *interval >= from).map(Self::TackNoSooner)
            }
            Some(("periodic", ms)) => interval(ms).map(Self::Periodic),
            Some(_) => None,
        };
        acks.ok_or_else(|| format!("allowed: {ACKS}"))
    }
}

impl Serialize for Acks {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A congestion controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(clap::ValueEnum)]
pub enum Congestion {
    /// The TACK stack's receiver-driven BBR, quiche's BBRv2, quinn's BBR.
    Bbr,
    /// quiche's and quinn's CUBIC.
    Cubic,
}

/// What is sent: by the server, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// As much as possible, until the end or for so long after the start: both ends fall
    /// silent then.
    Bulk {
        /// How long.
        stop: Option<Duration>,
    },
    /// Client and server send as much as possible, on the same stream, until the end.
    TwoWay,
    /// So many bytes.
    Bytes(u64),
    /// A steady source of so many bits per second.
    Rate(f64),
    /// Live frames, dropped when they are old.
    Media(Media),
    /// Audio and two videos of a call, each with its priority.
    Call(Call),
    /// Live frames, each on a stream of its own.
    Frames(Frames),
    /// What an application protocol sends, in both directions of one stream, until its client has
    /// finished. For [`run_applications`](super::run_applications).
    Applications,
}

/// A live source at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Media {
    /// Bits per second of all frames that are made.
    pub bps: f64,
    /// Frames per second, all of one size.
    pub fps: f64,
    /// How long a frame may wait for the stack before it is dropped.
    pub patience: Duration,
}

/// A live source, each of whose frames has a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frames {
    /// The rate of all frames that are made.
    pub rate: FrameRate,
    /// Frames per second.
    pub fps: f64,
    /// How long a frame may wait for the stack before it is dropped.
    pub patience: Duration,
    /// How long after it was made a frame is worth sending.
    pub lifetime: Duration,
    /// How long after it was made it has to be there.
    pub playout: Duration,
    /// Whether a frame goes into DATAGRAMs, all that it needs at once, instead of a stream: what is lost of it is
    /// not sent again.
    pub as_datagrams: bool,
    /// Whether the stack is told when a frame's lifetime ends. Of the TACK stack only.
    pub has_deadlines: bool,
    /// Frames that are made earlier in the run do not count.
    pub measured_from: Duration,
}

/// The rate of a live source, which is that of its encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FrameRate {
    /// So many bits per second.
    Constant(f64),
    /// That share of a rate that changes in steps: from when on, and bits per second.
    Share(f64, &'static [(u64, f64)]),
    /// That share of what the stack takes for the path's rate, and so many bits per second at least.
    OfEstimate(f64, f64),
    /// A screen that is projected: so many bits per second on average, in scenes of a few seconds that need
    /// more or less, each group of sixty frames with one at its head that needs six times as much.
    Screen(f64),
    /// What an encoder's rate control makes of the stack's statistics, from so many bits per second on.
    Adaptive(u64),
}

impl FrameRate {
    /// Bits per second at `at` from the start of the run; `estimate` is what the stack takes for the path's
    /// rate, `adaptive` what rate control makes of it.
    pub(super) fn bps(self, at: Duration, estimate: Option<f64>, adaptive: u64) -> f64 {
        match self {
            Self::Constant(bps) => bps,
            Self::Share(share, steps) => share * step_at(steps, at),
            Self::Adaptive(_) => adaptive as f64,
            Self::Screen(mean) => mean * screen_share(at),
            Self::OfEstimate(share, least) => {
                estimate.map_or(least, |bps| least.max(share * bps))
            }
        }
    }
}

/// What a frame of a screen needs, made at `at`, over the mean of all.
fn screen_share(at: Duration) -> f64 {
    const SCENE: u64 = 180;
    const GROUP: u64 = 60;
    const KEY: f64 = 6.0;
    let frame = (at.as_secs_f64() * GROUP as f64).round() as u64;
    // Scenes need 0.7 to 1.3 of the mean; the same ones in each run.
    let scene = (frame / SCENE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let scene = 0.7 + 0.6 * scene as f64 / f64::from(1 << 24);
    let others = GROUP as f64 / (GROUP as f64 - 1.0 + KEY);
    scene * if frame.is_multiple_of(GROUP) { KEY * others } else { others }
}

/// The value of steps, each from its second on, at a time; zero before the first.
pub fn step_at(steps: &[(u64, f64)], at: Duration) -> f64 {
    let begun = |&&(from, _): &&(u64, f64)| Duration::from_secs(from) <= at;
    steps.iter().take_while(begun).last().map_or(0.0, |(_, value)| *value)
}

/// A call as in draft-huitema-ccwg-c4-test: frames of audio as DATAGRAMs, and two videos of 30
/// frames a second, each group of 30 frames on a stream of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Frames of audio, one each 20 ms.
    pub audio_frames: u64,
    /// Frames of each video.
    pub video_frames: u64,
    /// Frames that are made earlier do not count.
    pub measured_from: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_to_acknowledge_is_read_as_it_is_written() {
        for text in [
            "tack",
            "tack-poor",
            "tack-paper",
            "tack:30",
            "delayed",
            "every:2",
            "periodic:12.5",
        ] {
            assert_eq!(text.parse::<Acks>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_wrong_way_to_acknowledge_is_told_the_right_ones() {
        for text in [
            "",
            "tacks",
            "tack:0.5",
            "every",
            "every:0",
            "every:-1",
            "periodic:0",
            "periodic:NaN",
        ] {
            let error = text.parse::<Acks>().unwrap_err();
            assert!(error.contains("every:L"), "{text}: {error}");
        }
    }
}
