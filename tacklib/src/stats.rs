//! Connection statistics.

use std::time::Duration;

use serde::{Serialize, Serializer};
use tack_proto::ecn::EcnState;
use tack_proto::sender::{CarefulResumePhase, CarefulResumeTrigger};

use crate::layer::Layer;

/// Statistics of the layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TackStats {
    /// Whether both ends speak TACK.
    pub tack: bool,
    /// The rate at which data may be sent, bytes per second: BWmax.
    pub bandwidth: u64,
    /// The rate at which packets leave now, bytes per second.
    pub pacing_rate: u64,
    /// Bytes sent and neither acknowledged nor lost.
    pub bytes_in_flight: u64,
    /// RTTmin: the smallest round trip of the last ten seconds.
    pub min_rtt: Option<Duration>,
    /// Smoothed round trip.
    pub smoothed_rtt: Option<Duration>,
    /// Queueing on the way here: one-way delay above the lowest seen.
    pub queueing_delay: Option<Duration>,
    /// rho of what we send, as the receiver reports it: 0 to 1.
    pub loss_rate: f64,
    /// rho of what we receive: 0 to 1.
    pub incoming_loss_rate: f64,
    /// rho', loss on the way of the TACKs that we receive: 0 to 1.
    pub ack_loss_rate: f64,
    /// TACKs sent.
    pub tacks_sent: u64,
    /// IACKs sent.
    pub iacks_sent: u64,
    /// Bubbles listed in them: missing ranges of stream bytes.
    pub bubbles_sent: u64,
    /// ACKs that a delayed-ACK receiver would have sent instead: one for every
    /// second packet.
    pub delayed_acks_instead: u64,
    /// TACKs received.
    pub tacks_received: u64,
    /// IACKs received.
    pub iacks_received: u64,
    /// Standard ACK frames received.
    pub acks_received: u64,
    /// ACK_FREQUENCY frames sent.
    pub frequency_updates_sent: u64,
    /// Packets whose data had arrived as bubbles told, when nothing else did.
    pub packets_by_bubbles: u64,
    /// IMMEDIATE_ACK frames sent.
    pub immediate_acks_sent: u64,
    /// Packets taken for lost.
    pub lost_packets: u64,
    /// Of these, packets that had arrived.
    pub spurious_losses: u64,
    /// Bytes taken for lost.
    pub lost_bytes: u64,
    /// Packets received that had to be opened and read; the others are taken by their header.
    pub packets_opened: u64,
    /// Packets received that were not accepted: damaged, forged, or received before.
    pub packets_refused: u64,
    /// Packets sent that were sealed again for the layer's frames.
    pub packets_resealed: u64,
    /// What is known of ECN on the path that data goes over.
    #[serde(serialize_with = "as_name")]
    pub ecn: EcnState,
    /// Packets sent with an ECT codepoint.
    pub ecn_marked: u64,
    /// Packets newly reported as CE, on paths where reports can be relied on.
    pub ecn_ce_reported: u64,
    /// Packets received as ECT(0).
    pub ecn_ect0_received: u64,
    /// Packets received as ECT(1).
    pub ecn_ect1_received: u64,
    /// Packets received as CE.
    pub ecn_ce_received: u64,
    /// Where Careful Resume is on the path that data goes over (RFC 9959).
    #[serde(serialize_with = "as_phase")]
    pub careful_resume: CarefulResumePhase,
    /// Why it is there; `None` if it has not begun or not gone beyond its first phase.
    #[serde(serialize_with = "as_trigger")]
    pub careful_resume_trigger: Option<CarefulResumeTrigger>,
    /// Bytes sent to measure the path with packet trains, and for nothing else.
    pub train_bytes: u64,
    /// Packet numbers skipped on purpose, as a trap for optimistic acknowledgements.
    pub packets_skipped: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn as_name<S: Serializer>(state: &EcnState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(state)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn as_phase<S: Serializer>(
    phase: &CarefulResumePhase,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(phase.name())
}

#[allow(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn as_trigger<S: Serializer>(
    trigger: &Option<CarefulResumeTrigger>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    trigger.map(CarefulResumeTrigger::name).serialize(serializer)
}

impl TackStats {
    pub(crate) fn of(layer: &Layer) -> Self {
        let (sender, receiver) = (layer.sender().stats(), layer.receiver().stats());
        Self {
            tack: layer.agreement().tack,
            bandwidth: layer.sender().bandwidth().bytes_per_second(),
            pacing_rate: layer.sender().pacing_rate().bytes_per_second(),
            bytes_in_flight: layer.sender().in_flight(),
            min_rtt: layer.sender().min_rtt(),
            smoothed_rtt: layer.sender().smoothed_rtt(),
            queueing_delay: layer.receiver().queueing(),
            loss_rate: layer.sender().loss_rate(),
            incoming_loss_rate: layer.receiver().loss_rate(),
            ack_loss_rate: layer.sender().ack_loss_rate(),
            tacks_sent: receiver.tacks,
            iacks_sent: receiver.iacks,
            bubbles_sent: receiver.bubbles,
            delayed_acks_instead: receiver.delayed_acks,
            tacks_received: sender.tacks,
            iacks_received: sender.iacks,
            acks_received: sender.acks,
            frequency_updates_sent: sender.frequency_updates,
            packets_by_bubbles: sender.by_bubbles,
            immediate_acks_sent: sender.immediate_acks,
            lost_packets: sender.lost_packets,
            spurious_losses: sender.spurious_losses,
            lost_bytes: sender.lost_bytes,
            packets_opened: layer.stats().opened,
            packets_refused: layer.stats().refused,
            packets_resealed: layer.stats().resealed,
            ecn: layer.sender().ecn_state(),
            ecn_marked: sender.marked_packets,
            train_bytes: sender.train_bytes,
            ecn_ce_reported: sender.ce,
            ecn_ect0_received: receiver.ecn.ect0,
            ecn_ect1_received: receiver.ecn.ect1,
            ecn_ce_received: receiver.ecn.ce,
            careful_resume: layer.sender().careful_resume().0,
            careful_resume_trigger: layer.sender().careful_resume().1,
            packets_skipped: layer.stats().skipped,
        }
    }
}
