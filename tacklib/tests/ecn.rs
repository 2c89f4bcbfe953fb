//! Packets that are marked, and paths and peers that can or cannot be relied on for it
//! (RFC 9000 section 13.4 and appendix A.4).

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use common::log::Log;
use common::*;
use tack_packet::{CipherSuite, ProtectionKeys, TAG_LEN};
use tack_proto::frame::{EcnCounts, Frame, Frames, put_ack_ecn};
use tacklib::EcnCodepoint::{Ce, Ect0, Ect1, NotEct};
use tacklib::{Connection, Ecn, EcnState};

const ONE_WAY: Duration = Duration::from_millis(10);
const MEGABYTE: usize = 1 << 20;

/// Two TACK ends whose client marks.
fn marking_pair(ecn: Ecn) -> Pair<Connection, Connection> {
    let (mut client, mut server) = (tack_config(), tack_config());
    let (mut client, server) = (tack_client(&mut client), tack_server(&mut server));
    client.set_ecn(ecn);
    Pair::new(client, server).with_delay(ONE_WAY).with_rate(50)
}

/// Sends a megabyte up over a path that does this to codepoints.
fn over(ecn: Ecn, marker: Marker) -> Pair<Connection, Connection> {
    let mut pair = marking_pair(ecn);
    pair.mark_up(marker);
    pair.handshake();
    transfer(&mut pair, 0, MEGABYTE, false);
    pair.run_for(Duration::from_millis(200));
    pair
}

fn state(pair: &Pair<Connection, impl End>) -> EcnState {
    let state = pair.client.tack_stats().ecn;
    let path = pair.client.path_ecn(client_address(), server_address());
    assert_eq!(path, Some(state), "there is one path");
    state
}

/// A path that failed has carried some marks: those of the test, and of what was on its way.
fn assert_failed_soon<S: End>(pair: &Pair<Connection, S>) {
    assert_eq!(state(pair), EcnState::Failed);
    let stats = pair.client.tack_stats();
    assert!((1..=40).contains(&stats.ecn_marked), "{stats:?}");
    assert_eq!(stats.ecn_ce_reported, 0);
    assert!(pair.client.local_error().is_none() && pair.server.quic().local_error().is_none());
}

#[test]
fn every_marked_packet_is_counted_by_its_codepoint_once() {
    // TACK-4.6-1, TACK-3.1-8.
    for (ecn, codepoint) in [(Ecn::Classic, Ect0), (Ecn::L4s, Ect1)] {
        let sent = Rc::new(Cell::new(0));
        let seen = Rc::clone(&sent);
        let pair = over(
            ecn,
            Box::new(move |found| {
                assert!(found == codepoint || found == NotEct);
                seen.set(seen.get() + u64::from(found == codepoint));
                Some(found)
            }),
        );
        assert_eq!(state(&pair), EcnState::Capable);
        let (client, server) = (pair.client.tack_stats(), pair.server.tack_stats());
        assert!(client.ecn_marked > 700, "{client:?}");
        assert_eq!(client.ecn_marked, sent.get());
        let received = [server.ecn_ect0_received, server.ecn_ect1_received];
        let expected = if ecn == Ecn::Classic { [sent.get(), 0] } else { [0, sent.get()] };
        assert_eq!((received, server.ecn_ce_received), (expected, 0));
        assert_eq!(client.ecn_ce_reported, 0);
    }
}

#[test]
fn congestion_that_the_path_signals_reaches_the_sender() {
    // TACK-5.8-7
    let (mut packet, marked) = (0, Rc::new(Cell::new(0)));
    let counted = Rc::clone(&marked);
    let pair = over(
        Ecn::L4s,
        Box::new(move |codepoint| {
            packet += 1;
            // The last packets may be acknowledgements, which are not acknowledged.
            let is_marked =
                codepoint == Ect1 && (101..=700).contains(&packet) && packet % 10 == 0;
            counted.set(counted.get() + u64::from(is_marked));
            Some(if is_marked { Ce } else { codepoint })
        }),
    );
    assert_eq!(state(&pair), EcnState::Capable);
    assert!(marked.get() > 50);
    assert_eq!(pair.server.tack_stats().ecn_ce_received, marked.get());
    assert_eq!(pair.client.tack_stats().ecn_ce_reported, marked.get());
}

#[test]
fn an_application_that_marks_nothing_changes_nothing() {
    let pair = over(Ecn::Off, Box::new(|codepoint| (codepoint == NotEct).then_some(NotEct)));
    assert_eq!(state(&pair), EcnState::Off);
    assert_eq!(pair.client.tack_stats().ecn_marked, 0);
}

#[test]
fn marks_stop_on_a_path_that_bleaches_them() {
    // TACK-5.8-3
    assert_failed_soon(&over(Ecn::Classic, Box::new(|_| Some(NotEct))));
}

#[test]
fn marks_stop_on_a_path_that_turns_one_codepoint_into_another() {
    let swap = |codepoint| if codepoint == Ect0 { Ect1 } else { codepoint };
    assert_failed_soon(&over(Ecn::Classic, Box::new(move |codepoint| Some(swap(codepoint)))));
}

#[test]
fn marks_stop_on_a_path_that_sets_ce_in_all() {
    // TACK-5.8-4
    let mangle = |codepoint| if codepoint == NotEct { NotEct } else { Ce };
    let mut pair = over(Ecn::L4s, Box::new(move |codepoint| Some(mangle(codepoint))));
    assert_eq!(state(&pair), EcnState::Failed);
    let marked = pair.client.tack_stats().ecn_marked;
    assert!((100..500).contains(&marked), "{marked} of some 800");
    transfer(&mut pair, 4, MEGABYTE, false);
    assert_eq!(pair.client.tack_stats().ecn_marked, marked);
    assert!(pair.client.local_error().is_none() && pair.server.quic().local_error().is_none());
}

#[test]
fn marks_stop_on_a_path_that_drops_what_is_marked_and_the_transfer_goes_on() {
    // TACK-5.8-4. `over` checks that everything arrives.
    let pair = over(Ecn::Classic, Box::new(|found| (found == NotEct).then_some(NotEct)));
    assert_failed_soon(&pair);
    assert!(pair.client.tack_stats().lost_packets >= 10);
}

#[test]
fn marks_stop_where_the_path_begins_to_drop_what_is_marked() {
    // TACK-5.8-5
    let mut packet = 0;
    let pair = over(
        Ecn::L4s,
        Box::new(move |codepoint| {
            packet += 1;
            (codepoint == NotEct || packet < 300).then_some(codepoint)
        }),
    );
    assert_eq!(state(&pair), EcnState::Failed);
}

#[test]
fn a_stock_server_that_does_not_count_ends_the_marks_and_nothing_else() {
    // TACK-5.8-3
    let (mut client, mut server) = (tack_config(), stock_config());
    let (mut client, server) = (tack_client(&mut client), stock_server(&mut server));
    client.set_ecn(Ecn::Classic);
    let mut pair = Pair::new(client, server).with_delay(ONE_WAY).with_rate(50);
    pair.handshake();
    transfer(&mut pair, 0, MEGABYTE, false);
    assert_failed_soon(&pair);
}

/// A stock server whose acknowledgements report what `counts` says of the marked packets that have
/// reached it.
fn over_a_server_that_reports(
    counts: fn(u64) -> EcnCounts,
) -> Pair<Connection, quiche::Connection> {
    let (mut client, mut server) = (tack_config(), stock_config());
    client.log_keys();
    let secrets = Log::default();
    let mut client = tack_client(&mut client);
    client.set_keylog(Box::new(secrets.clone()));
    client.set_ecn(Ecn::Classic);
    let server = stock_server(&mut server);
    let mut pair = Pair::new(client, server).with_delay(ONE_WAY).with_rate(50);
    let reached = Rc::new(Cell::new(0));
    let (counted, told) = (Rc::clone(&reached), reached);
    pair.mark_up(Box::new(move |codepoint| {
        counted.set(counted.get() + u64::from(codepoint == Ect0));
        Some(codepoint)
    }));
    let (mut keys, mut expected) = (None, 0);
    pair.tamper_down(Box::new(move |mut packet| {
        if packet[0] & 0x80 != 0 || told.get() == 0 {
            return Some(packet);
        }
        let keys = keys.get_or_insert_with(|| {
            let secret = secrets.secret("SERVER_TRAFFIC_SECRET_0");
            ProtectionKeys::new(
                CipherSuite::from_name("TLS_AES_128_GCM_SHA256").unwrap(),
                &secret,
            )
            .unwrap()
        });
        let opened = keys.open(&mut packet, 16, expected).unwrap();
        expected = opened.header.packet_number + 1;
        let payload = packet[opened.payload.clone()].to_vec();
        let mut frames = Vec::new();
        for located in Frames::new(&payload) {
            let located = located.unwrap();
            match located.frame {
                Frame::Ack(_) => {
                    put_ack_ecn(&mut frames, &payload[located.range], counts(told.get()));
                }
                _ => frames.extend_from_slice(&payload[located.range]),
            }
        }
        packet.truncate(opened.payload.start);
        packet.extend_from_slice(&frames);
        packet.resize(packet.len() + TAG_LEN, 0);
        keys.seal(opened.generation, &mut packet, &opened.header, frames.len()).unwrap();
        Some(packet)
    }));
    pair.handshake();
    transfer(&mut pair, 0, MEGABYTE, false);
    pair
}

#[test]
fn the_counts_of_a_stock_server_validate_the_path() {
    let pair = over_a_server_that_reports(|marked| EcnCounts { ect0: marked, ect1: 0, ce: 0 });
    assert_eq!(state(&pair), EcnState::Capable);
    assert!(pair.client.tack_stats().ecn_marked > 700);
    let pair = over_a_server_that_reports(|marked| EcnCounts {
        ect0: marked - marked / 10,
        ect1: 0,
        ce: marked / 10,
    });
    assert_eq!(state(&pair), EcnState::Capable);
    assert!(pair.client.tack_stats().ecn_ce_reported > 50);
}

#[test]
fn counts_of_a_stock_server_that_cannot_be_true_end_the_marks_and_nothing_else() {
    // TACK-5.8-3: more than were sent, of a codepoint that none was, and falling.
    for counts in [
        |marked: u64| EcnCounts { ect0: marked + 1000, ect1: 0, ce: 0 },
        |marked| EcnCounts { ect0: marked, ect1: 1, ce: 0 },
        |marked| EcnCounts { ect0: marked, ect1: 0, ce: 1 << 60 },
        |marked: u64| EcnCounts { ect0: 20 - marked.min(20), ect1: 0, ce: 0 },
    ] {
        assert_failed_soon(&over_a_server_that_reports(counts));
    }
}

/// What a TACK server's acknowledgements say to a stock client whose packets the path marks from
/// the 20th on: their counts, in order, while data goes both ways.
fn reports_to_a_stock_client(codepoint: tacklib::EcnCodepoint) -> Vec<Option<EcnCounts>> {
    let (mut client, mut server) = (stock_config(), tack_config());
    server.log_keys();
    let secrets = Log::default();
    let mut server = tack_server(&mut server);
    server.set_keylog(Box::new(secrets.clone()));
    let mut pair =
        Pair::new(stock_client(&mut client), server).with_delay(ONE_WAY).with_rate(50);
    let mut packet = 0;
    pair.mark_up(Box::new(move |_| {
        packet += 1;
        Some(if packet > 20 { codepoint } else { NotEct })
    }));
    let reports = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&reports);
    let (mut keys, mut expected) = (None, 0);
    pair.tamper_down(Box::new(move |datagram| {
        if datagram[0] & 0x80 == 0 {
            let keys = keys.get_or_insert_with(|| {
                let secret = secrets.secret("SERVER_TRAFFIC_SECRET_0");
                ProtectionKeys::new(
                    CipherSuite::from_name("TLS_AES_128_GCM_SHA256").unwrap(),
                    &secret,
                )
                .unwrap()
            });
            let mut packet = datagram.clone();
            let opened = keys.open(&mut packet, 16, expected).unwrap();
            expected = opened.header.packet_number + 1;
            for located in Frames::new(&packet[opened.payload]) {
                if let Frame::Ack(ack) = located.unwrap().frame {
                    noted.borrow_mut().push(ack.ecn);
                }
            }
        }
        Some(datagram)
    }));
    pair.handshake();
    // The server's packets are full of stream data, with acknowledgements among it.
    let data = vec![7; MEGABYTE];
    let (mut buffer, mut down, mut up) = (vec![0; 65_536], 0, 0);
    let mut written = [0; 2];
    pair.run_until(|pair| {
        let [by_client, by_server] = &mut written;
        if *by_client < MEGABYTE {
            *by_client += pair.client.write(0, &data[*by_client..], true);
        }
        if up > 0 && *by_server < MEGABYTE {
            *by_server += pair.server.write(0, &data[*by_server..], true);
        }
        while let Ok((read, _)) = pair.server.read(0, &mut buffer) {
            up += read;
        }
        while let Ok((read, _)) = pair.client.read(0, &mut buffer) {
            down += read;
        }
        down == MEGABYTE && up == MEGABYTE
    });
    assert!(pair.client.local_error().is_none() && pair.server.local_error().is_none());
    drop(pair);
    Rc::try_unwrap(reports).unwrap().into_inner()
}

#[test]
fn a_stock_client_is_told_from_the_first_mark_on_in_every_acknowledgement() {
    // TACK-8-8
    let reports = reports_to_a_stock_client(Ect0);
    let first = reports.iter().position(Option::is_some).unwrap();
    assert!(first > 0 && reports.len() - first > 100, "{first} of {}", reports.len());
    let told: Vec<_> = reports[first..].iter().map(|report| report.unwrap()).collect();
    assert!(told.is_sorted_by_key(|counts| counts.ect0), "counts never fall");
    assert!(told.last().unwrap().ect0 > 500);
    assert!(told.iter().all(|counts| (counts.ect1, counts.ce) == (0, 0)));
}

#[test]
fn a_stock_client_that_does_not_mark_gets_plain_acknowledgements() {
    let reports = reports_to_a_stock_client(NotEct);
    assert!(reports.len() > 100 && reports.iter().all(Option::is_none));
}
