//! From the first flight to the moment at which the layer takes over.

use std::time::Instant;

use quiche::{BufFactory, ConnectionId, SendInfo};
use tack_packet::{CipherSuite, DatagramLayout, LongHeader};
use tack_proto::ecn::Ecn;
use tack_proto::sender::CcParameters;
use tack_proto::transport_parameters::ParameterError;

use super::Connection;
use super::send::Wanted;
use super::send_credits::CreditReason;
use crate::boringssl;
use crate::config::Config;
use crate::lab::LabSwitches;
use crate::layer::{EarlyPacket, Layer, Parts, Plan};
use crate::negotiation::{self, Agreement};
use crate::quiche_compat::{ServerIds, StoppedReads, Template, TrafficSecrets};

/// 1-RTT and 0-RTT data that may leave before the handshake ends, bytes: the initial window of RFC 9002
/// section 7.2, which quiche's inert controller no longer enforces.
const EARLY_DATA_WINDOW: usize = 14_720;

/// Packets with early data that are recorded: the window, in packets that are not full, and probes.
const MOST_EARLY_PACKETS: usize = 64;

/// Transport error code of RFC 9000 section 20.1.
const INTERNAL_ERROR: u64 = 0x01;

/// BoringSSL's `ssl_early_data_accepted`.
const EARLY_DATA_ACCEPTED: u32 = 2;

/// What is needed until the layer takes over.
#[derive(Default)]
pub(super) struct Handshake {
    /// Captures the 1-RTT secrets.
    pub(super) secrets: TrafficSecrets,
    /// Our encoded transport parameters; empty while the layer is off.
    pub(super) parameters: Vec<u8>,
    awaited: Option<Awaited>,
    /// Data that has left early, bytes.
    early_bytes: usize,
    early: EarlyRecord,
    /// A 0-RTT packet has left, or has come.
    saw_zero_rtt: bool,
    /// A 1-RTT packet has left that the layer did not see: a server whose TLS has accepted early data sends
    /// some before the handshake is done, even if the 0-RTT packets are lost.
    sent_unseen: bool,
    /// Streams of early data that this end has stopped reading: the layer asks the peer to stop.
    pub(super) stopped_reads: StoppedReads,
    /// The application has replaced quiche's key log, and was warned.
    is_cut_off: bool,
    /// The application has asked for the keys to be logged.
    pub(super) logs_keys: bool,
    lab: LabSwitches,
    /// What the application can mark datagrams with.
    pub(super) ecn: Ecn,
    /// What an earlier connection observed of the path.
    pub(super) cc_parameters: Option<CcParameters>,
}

/// Packets with early data: what a client sends with 0-RTT keys, and what a server answers before the handshake is
/// done.
#[derive(Default)]
struct EarlyRecord {
    /// Packets of every kind that have left: quiche numbers them all in one series.
    sent: u64,
    packets: Vec<EarlyPacket>,
    /// Where they go. Behind a Retry that is another connection id, and what left before is lost (RFC 9000
    /// section 8.1.2).
    destination: Vec<u8>,
    /// More have left than are recorded.
    is_incomplete: bool,
}

impl EarlyRecord {
    fn on_sent(&mut self, now: Instant, datagram: &[u8], layout: &DatagramLayout) {
        let mut packet_number = self.sent + layout.long_packets as u64;
        self.sent = packet_number + u64::from(layout.one_rtt.is_some());
        let Some(at) = layout.one_rtt.or(layout.zero_rtt) else { return };
        let packet = &datagram[at..];
        if layout.one_rtt.is_none() {
            let Some(header) = LongHeader::parse(packet) else { return };
            // quiche writes it behind all others, and ends the datagram with it.
            self.is_incomplete |= header.packet_len() != packet.len();
            packet_number -= 1;
            if header.dcid != self.destination {
                self.packets.clear();
                self.destination = header.dcid.to_vec();
            }
        }
        if self.packets.len() < MOST_EARLY_PACKETS {
            self.packets.push(EarlyPacket { packet_number, at: now, bytes: packet.len() });
        } else {
            self.is_incomplete = true;
        }
    }

    /// All of them, or none.
    fn take(&mut self) -> Vec<EarlyPacket> {
        let packets = std::mem::take(&mut self.packets);
        if self.is_incomplete { Vec::new() } else { packets }
    }
}

/// A server's parameters wait for the first Initial: it names the connection id
/// that they must repeat.
struct Awaited {
    template: Template,
    scid: ConnectionId<'static>,
    retry: Option<(Vec<u8>, Vec<u8>)>,
    reset_token: Option<u128>,
}

impl Handshake {
    pub(super) fn new(config: &Config) -> Self {
        Self { logs_keys: config.logs_keys(), lab: config.lab(), ..Self::default() }
    }

    /// Whether the layer is going to take over.
    pub(super) fn is_enabled(&self) -> bool {
        self.awaited.is_some() || !self.parameters.is_empty()
    }

    /// Sets a parameter that is an integer: of those that we announce, or, as a server, are going to.
    pub(super) fn set_parameter(&mut self, id: u64, value: u64) -> Result<(), ParameterError> {
        if let Some(awaited) = &mut self.awaited {
            awaited.template.set_integer(id, value)?;
        }
        if self.parameters.is_empty() {
            return Ok(());
        }
        negotiation::set_integer(&mut self.parameters, id, value)
    }
}

impl<F: BufFactory> Connection<F> {
    fn template(&mut self, config: &mut Config) -> Option<Template> {
        if !config.is_enabled() {
            return None;
        }
        let template = config.template().cloned();
        if template.is_none() {
            log::warn!(
                "{}: cannot start a handshake with this TLS context: the connection goes on without \
                 TACK",
                self.inner.trace_id()
            );
        }
        template
    }

    /// Client: announces our parameters.
    pub(super) fn announce_to_server(&mut self, config: &mut Config, scid: &ConnectionId<'_>) {
        if let Some(template) = self.template(config) {
            self.handshake.parameters = template.for_client(scid).unwrap_or_default();
            self.apply_parameters();
        }
    }

    /// Server: prepares our parameters, which wait for the client's first Initial.
    pub(super) fn expect_client(
        &mut self,
        config: &mut Config,
        scid: &ConnectionId<'_>,
        retry: Option<(&ConnectionId<'_>, &ConnectionId<'_>)>,
    ) {
        if retry.is_none() {
            self.seam.expect_unproven_client();
        }
        let Some(template) = self.template(config) else { return };
        self.handshake.awaited = Some(Awaited {
            template,
            scid: ConnectionId::from_vec(scid.to_vec()),
            retry: retry.map(|(original, source)| (original.to_vec(), source.to_vec())),
            reset_token: config.stateless_reset_token(),
        });
    }

    /// Client: replaces the parameters that quiche encoded.
    pub(super) fn apply_parameters(&mut self) {
        if !self.inner.is_server() && !self.handshake.parameters.is_empty() {
            let parameters = self.handshake.parameters.clone();
            boringssl::announce_parameters(self.inner.as_mut(), parameters);
        }
    }

    /// Server: the first Initial that quiche accepts says what the parameters must repeat. They have
    /// to be set before quiche reads it.
    fn announce_to_client(&mut self, datagram: &[u8], layout: &DatagramLayout) {
        let Some(awaited) = &self.handshake.awaited else { return };
        let Some(destination) = layout.initial_dcid.clone() else { return };
        let ids = ServerIds {
            original_destination: match &awaited.retry {
                Some((original, _)) => original,
                None => &datagram[destination],
            },
            retry_source: awaited.retry.as_ref().map(|(_, source)| &source[..]),
            reset_token: awaited.reset_token,
        };
        if let Some(parameters) = awaited.template.for_server(&awaited.scid, &ids) {
            self.handshake.parameters.clone_from(&parameters);
            boringssl::set_transport_parameters_later(self.inner.as_mut(), parameters);
        }
    }

    /// Before quiche gets packets with long headers.
    pub(super) fn before_handshake_packets(
        &mut self,
        datagram: &[u8],
        layout: &DatagramLayout,
    ) {
        if self.layer.is_none() {
            self.seam.anti_amplification.on_received(datagram.len());
            self.announce_to_client(datagram, layout);
        }
    }

    /// quiche got packets with long headers. Only those that it has accepted change anything.
    pub(super) fn after_handshake_packets(&mut self, layout: &DatagramLayout) {
        if layout.is_version_negotiation {
            // quiche encodes its parameters again for the new version.
            self.apply_parameters();
        }
        let accepted = self.seam.counters.follow(&self.inner).accepted;
        if accepted > 0 {
            self.handshake.awaited = None;
            self.credits.grant(CreditReason::Handshake);
            if accepted >= layout.long_packets && layout.has_handshake {
                self.seam.anti_amplification.on_proven();
            }
        }
        // What quiche keeps for later counts when TLS has accepted early data. No server sends any.
        self.handshake.saw_zero_rtt |= layout.zero_rtt.is_some() && self.inner.is_server();
        self.activate();
    }

    /// The handshake is done: the layer takes over.
    pub(super) fn activate(&mut self) {
        self.warn_if_cut_off();
        if self.layer.is_some() || !self.inner.is_established() || self.inner.is_closed() {
            return;
        }
        let Some((client, server)) = self.handshake.secrets.take_secrets() else {
            // Without the keys nothing controls the rate, and the peer has been
            // told of frames that quiche would choke on.
            let reason = b"the key log of the connection inside was replaced";
            let _ = self.inner.close(false, INTERNAL_ERROR, reason);
            return;
        };
        match self.build_layer(&client, &server) {
            Ok(mut layer) => {
                *layer.stopped_reads() = std::mem::take(&mut self.handshake.stopped_reads);
                self.layer = Some(Box::new(layer));
                self.seam.counters.follow(&self.inner);
            }
            Err((code, reason)) => {
                let _ = self.inner.close(false, code, reason.as_bytes());
                self.handshake.parameters.clear();
            }
        }
        self.credits.grant(CreditReason::Handshake);
        self.pending.add();
    }

    /// Says at once what will make the handshake fail.
    fn warn_if_cut_off(&mut self) {
        if self.layer.is_none()
            && !self.handshake.is_cut_off
            && !self.handshake.secrets.is_connected()
        {
            self.handshake.is_cut_off = true;
            log::error!(
                "{}: the application has set a key log on the quiche connection itself; the layer \
                 learns no keys and will close the connection: call tacklib::Connection::set_keylog",
                self.inner.trace_id()
            );
        }
    }

    fn build_layer(&mut self, client: &[u8], server: &[u8]) -> Result<Layer, (u64, String)> {
        const TRANSPORT_PARAMETER_ERROR: u64 = 0x08;
        let is_server = self.inner.is_server();
        let peer = boringssl::peer_transport_parameters(self.inner.as_mut());
        let agreement = Agreement::from_peer(&peer)
            .map_err(|error| (TRANSPORT_PARAMETER_ERROR, error.to_string()))?;
        let name = self.inner.as_mut().current_cipher().map_or("none", |cipher| cipher.name());
        let suite = CipherSuite::from_name(name)
            .ok_or_else(|| (INTERNAL_ERROR, format!("unknown cipher suite {name}")))?;
        let (incoming, outgoing) = if is_server { (client, server) } else { (server, client) };
        self.seam.path_mtu.follow(&self.inner);
        let rtt =
            self.inner.path_stats().find(|path| path.active).and_then(|path| path.min_rtt);
        let early = if self.is_early_data_accepted() {
            self.handshake.early.take()
        } else {
            Vec::new()
        };
        Layer::new(&Parts {
            now: Instant::now(),
            early: &early,
            agreement,
            suite,
            incoming,
            outgoing,
            config: &self.config,
            lab: self.handshake.lab,
            parameters: &self.handshake.parameters,
            is_server,
            mss: self.seam.path_mtu.get(),
            rtt,
            zero_rtt: self.used_zero_rtt(),
            ecn: self.handshake.ecn,
            cc_parameters: self.handshake.cc_parameters,
            random: crate::random(),
        })
        .map_err(|error| (INTERNAL_ERROR, error.to_string()))
    }

    /// Whether packets of the number space have passed that the layer has not seen. A client knows
    /// what it has sent; to a server a forged header means nothing, so TLS is asked.
    fn used_zero_rtt(&self) -> bool {
        self.handshake.sent_unseen
            || self.handshake.saw_zero_rtt
                && (!self.inner.is_server() || self.is_early_data_accepted())
    }

    fn is_early_data_accepted(&self) -> bool {
        self.inner.early_data_reason() == EARLY_DATA_ACCEPTED
    }

    pub(super) fn send_in_handshake(
        &mut self,
        now: Instant,
        out: &mut [u8],
        (from, to): Wanted,
    ) -> quiche::Result<(usize, SendInfo)> {
        let window_is_used = self.handshake.early_bytes >= EARLY_DATA_WINDOW;
        let has_credit = self.credits.has_probe() || self.credits.has_control();
        if window_is_used && !has_credit {
            return Err(quiche::Error::Done);
        }
        let room = self.seam.anti_amplification.room(out.len());
        if room == 0 {
            return Err(quiche::Error::Done);
        }
        let (len, info) = self.inner.send_on_path(&mut out[..room], from, to)?;
        if window_is_used {
            self.credits.clear_control();
            self.credits.use_probe();
        }
        self.seam.anti_amplification.on_sent(len);
        let layout = DatagramLayout::parse(&out[..len]);
        self.handshake.saw_zero_rtt |= layout.zero_rtt.is_some();
        if layout.zero_rtt.is_some() || layout.one_rtt.is_some() {
            self.handshake.early_bytes += len;
        }
        // The call may have completed the handshake and written a 1-RTT packet.
        self.activate();
        let Some(mut layer) = self.layer.take() else {
            self.handshake.early.on_sent(now, &out[..len], &layout);
            self.handshake.sent_unseen |= layout.one_rtt.is_some();
            return Ok((len, info));
        };
        let plan = Plan { stream_data: true, ..Plan::default() };
        let path = (info.from, info.to);
        let finished = self.finish(&mut layer, now, out, len, &plan, path);
        self.layer = Some(layer);
        finished.map(|len| (len, info)).ok_or(quiche::Error::Done)
    }
}
