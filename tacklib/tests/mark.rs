//! Which packets are marked, and what becomes of those that should be and are not.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::log::Log;
use common::*;
use tack_packet::{CipherSuite, ProtectionKeys, TAG_LEN};
use tack_proto::frame::{Frame, Frames, TackFields, encode_tack};
use tacklib::Connection;

/// Length of the connection ids of both ends.
const DCID_LEN: usize = 16;

/// A pair after its handshake, and the keys of client and server.
fn pair() -> (Pair<Connection, Connection>, ProtectionKeys, ProtectionKeys) {
    let (mut client, mut server) = (tack_config(), tack_config());
    let secrets = Log::default();
    client.log_keys();
    let mut connection = tack_client(&mut client);
    connection.set_keylog(Box::new(secrets.clone()));
    let mut pair = Pair::new(connection, tack_server(&mut server));
    pair.handshake();
    let name = pair.client.as_mut().current_cipher().unwrap().name().to_owned();
    let suite = CipherSuite::from_name(&name).unwrap();
    let keys = |label| ProtectionKeys::new(suite, &secrets.secret(label)).unwrap();
    (pair, keys("CLIENT_TRAFFIC_SECRET_0"), keys("SERVER_TRAFFIC_SECRET_0"))
}

/// Packets seen: without the mark, and with it.
type Seen = Arc<Mutex<(usize, usize)>>;

/// Looks into every packet of one direction, and changes none.
fn inspector(mut keys: ProtectionKeys, seen: Seen) -> Tamper {
    let mut expected = 0;
    Box::new(move |datagram| {
        let mut packet = datagram.clone();
        let Ok(opened) = keys.open(&mut packet, DCID_LEN, expected) else {
            return Some(datagram);
        };
        expected = expected.max(opened.header.packet_number + 1);
        let frames = Frames::new(&packet[opened.payload.clone()]);
        let frames: Vec<_> = frames.map(|located| located.unwrap().frame).collect();
        let is_data = |frame: &Frame<'_>| match frame {
            Frame::Stream(stream) => !stream.fin,
            frame => matches!(frame, Frame::Datagram { .. }),
        };
        let nothing_else =
            frames.iter().all(|frame| is_data(frame) || matches!(frame, Frame::Padding { .. }));
        let is_plain = nothing_else && frames.iter().any(is_data);
        let mut seen = seen.lock().unwrap();
        match opened.header.reserved_bits() {
            0 => {
                assert!(is_plain, "not marked: {frames:?}");
                seen.0 += 1;
            }
            0x18 => seen.1 += 1,
            bits => panic!("half a mark: {bits:#x}"),
        }
        Some(datagram)
    })
}

#[test]
fn what_is_not_marked_is_plain_data_and_most_of_a_transfer_is() {
    // TACK-2-1, TACK-2-2, TACK-2-3
    let (mut pair, client, server) = pair();
    let (up, down) = (Seen::default(), Seen::default());
    pair.tamper_up(inspector(client, up.clone()));
    pair.tamper_down(inspector(server, down.clone()));
    // More than the first windows: their updates travel beside data.
    transfer(&mut pair, 0, 4 << 20, false);
    transfer(&mut pair, 4, 1 << 20, true);
    // Streams that are given up, and the end of the connection.
    pair.client.write(8, &vec![7; 40_000], false);
    pair.run_for(Duration::from_millis(5));
    pair.client.stream_shutdown(8, quiche::Shutdown::Write, 1).unwrap();
    pair.server.stream_shutdown(8, quiche::Shutdown::Read, 1).ok();
    pair.run_for(Duration::from_millis(50));
    pair.client.close(true, 0, b"done").unwrap();
    pair.run_for(Duration::from_millis(50));
    let (unmarked, marked) = *up.lock().unwrap();
    assert!(unmarked > 4 * marked, "up: {unmarked} unmarked, {marked} marked");
    assert!(down.lock().unwrap().0 > 100, "the server's data is not marked either");
}

#[test]
fn extension_frames_without_the_mark_end_the_connection() {
    let (mut pair, _, mut server) = pair();
    let armed = Arc::new(AtomicBool::new(false));
    let arm = armed.clone();
    let mut expected = 0;
    pair.tamper_down(Box::new(move |datagram| {
        let mut packet = datagram.clone();
        let Ok(opened) = server.open(&mut packet, DCID_LEN, expected) else {
            return Some(datagram);
        };
        expected = expected.max(opened.header.packet_number + 1);
        if !armed.swap(false, Ordering::Relaxed) {
            return Some(datagram);
        }
        let mut frames = Vec::new();
        let fields = TackFields {
            sequence: 0,
            ack_delay_us: 0,
            received_bytes: 0,
            timing: None,
            rate: None,
            ecn: None,
            arrivals: None,
            grease: false,
        };
        encode_tack(&mut frames, &fields, [0..=0].into_iter(), std::iter::empty(), 1000)
            .unwrap();
        packet.truncate(opened.payload.start);
        packet.extend_from_slice(&frames);
        packet.resize(packet.len() + TAG_LEN, 0);
        let mut header = opened.header;
        header.first_byte &= !0x18;
        packet[0] = header.first_byte;
        server.seal(opened.generation, &mut packet, &header, frames.len()).unwrap();
        Some(packet)
    }));
    // The client has read what came: it need not look into packets without the mark.
    transfer(&mut pair, 0, 100_000, true);
    pair.run_for(Duration::from_millis(80));
    let tacks = pair.client.tack_stats().tacks_received;
    arm.store(true, Ordering::Relaxed);
    pair.client.write(4, b"anything that the server answers", true);
    pair.run_for(Duration::from_millis(150));
    assert!(pair.client.local_error().is_some_and(|error| !error.is_app), "nothing happened");
    assert_eq!(pair.client.tack_stats().tacks_received, tacks);
}

#[test]
fn a_forged_packet_without_the_mark_is_not_recorded() {
    // TACK-2-4
    let (mut pair, mut client, _) = pair();
    let forged = Arc::new(Mutex::new(0));
    let count = forged.clone();
    let mut expected = 0;
    pair.tamper_up(Box::new(move |mut datagram| {
        let Ok(opened) = client.open(&mut datagram.clone(), DCID_LEN, expected) else {
            return Some(datagram);
        };
        expected = expected.max(opened.header.packet_number + 1);
        if opened.header.reserved_bits() == 0 && opened.header.packet_number % 5 == 0 {
            // The header stays as it is, mask included: only the tag is wrong.
            *datagram.last_mut().unwrap() ^= 1;
            *count.lock().unwrap() += 1;
        }
        Some(datagram)
    }));
    transfer(&mut pair, 0, 1 << 20, false);
    let forged = *forged.lock().unwrap();
    assert!(forged > 50, "{forged}");
    // Had they been recorded, they would have been acknowledged. The last few may still be out.
    let lost = pair.client.tack_stats().lost_packets;
    assert!(lost * 10 > forged * 9, "{forged} forged, {lost} lost");
}
