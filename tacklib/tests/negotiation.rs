//! Who speaks TACK with whom, and how that survives the ways of a handshake.

mod common;

use common::log::Log;
use common::*;
use quiche::ConnectionId;
use tacklib::{Config, Profile};

const MEGABYTE: usize = 1 << 20;

#[test]
fn two_tack_ends_speak_tack_and_send_no_standard_acknowledgements() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server));
    pair.handshake();
    assert!(pair.client.is_tack() && pair.server.is_tack());
    transfer(&mut pair, 0, MEGABYTE, false);
    let stats = pair.client.tack_stats();
    assert!(stats.tacks_received > 0);
    assert_eq!(stats.acks_received, 0);
    assert_eq!(pair.server.tack_stats().acks_received, 0);
}

#[test]
fn a_stock_server_gets_plain_quic() {
    // TACK-8-2
    let (mut client, mut server) = (tack_config(), stock_config());
    let mut pair = Pair::new(tack_client(&mut client), stock_server(&mut server));
    pair.handshake();
    assert!(!pair.client.is_tack());
    transfer(&mut pair, 0, MEGABYTE, false);
    transfer(&mut pair, 4, MEGABYTE, true);
    assert!(pair.client.tack_stats().acks_received > 0);
    // quiche closes the connection over a frame that it does not know.
    assert!(pair.server.local_error().is_none() && pair.client.local_error().is_none());
}

#[test]
fn a_stock_client_gets_plain_quic() {
    let (mut client, mut server) = (stock_config(), tack_config());
    let mut pair = Pair::new(stock_client(&mut client), tack_server(&mut server));
    pair.handshake();
    assert!(!pair.server.is_tack());
    transfer(&mut pair, 0, MEGABYTE, false);
    transfer(&mut pair, 4, MEGABYTE, true);
    assert!(pair.client.local_error().is_none() && pair.server.local_error().is_none());
}

#[test]
fn a_configuration_that_is_switched_off_has_quiches_controller_again() {
    let window = |config: &mut Config| tack_client(config).path_stats().next().unwrap().cwnd;
    let mut config = tack_config();
    let of_the_layer = window(&mut config);
    // After a setter of quiche's the layer can't tell whose controller it has.
    config.set_max_idle_timeout(7_000);
    config.set_profile(Profile::Off);
    let of_quiche = window(&mut config);
    assert!(of_quiche < of_the_layer);
    assert_eq!(of_quiche, window(&mut profile_config(Profile::Off)));
}

#[test]
fn secrets_are_logged_for_those_who_asked_alone() {
    let logged = |log_keys: bool| {
        let (mut client, mut server) = (tack_config(), tack_config());
        if log_keys {
            client.log_keys();
        }
        let log = Log::default();
        let mut connection = tack_client(&mut client);
        connection.set_keylog(Box::new(log.clone()));
        let mut pair = Pair::new(connection, tack_server(&mut server));
        pair.handshake();
        assert!(pair.client.is_tack());
        log.take()
    };
    assert!(logged(true).contains("CLIENT_TRAFFIC_SECRET_0"));
    assert_eq!(logged(false), "");
    // The layer has had quiche log them for connections before.
    let mut config = tack_config();
    tack_client(&mut config);
    config.set_profile(Profile::Off);
    let (log, mut server) = (Log::default(), tack_config());
    let mut connection = tack_client(&mut config);
    connection.set_keylog(Box::new(log.clone()));
    Pair::new(connection, tack_server(&mut server)).handshake();
    assert_eq!(log.take(), "");
}

#[test]
fn the_profile_off_is_plain_quiche() {
    let mut client = profile_config(Profile::Off);
    let mut server = tack_config();
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server));
    pair.handshake();
    assert!(!pair.client.is_tack() && !pair.server.is_tack());
    transfer(&mut pair, 0, MEGABYTE, false);
    transfer(&mut pair, 4, MEGABYTE, true);
}

#[test]
fn tack_survives_a_retry() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut connection = tack_client(&mut client);
    let mut buffer = vec![0; 65536];
    let (len, _) = connection.send(&mut buffer).unwrap();
    let header = quiche::Header::from_slice(&mut buffer[..len], 16).unwrap();
    let retry_scid = ConnectionId::from_ref(&[0x77; 16]);
    let mut retry = vec![0; 1500];
    let len = quiche::retry(
        &header.scid,
        &header.dcid,
        &retry_scid,
        b"token",
        header.version,
        &mut retry,
    )
    .unwrap();
    let info = quiche::RecvInfo { from: server_address(), to: client_address() };
    connection.recv(&mut retry[..len], info).unwrap();
    let accepted = tacklib::accept(
        &retry_scid,
        Some(&header.dcid),
        server_address(),
        client_address(),
        &mut server,
    )
    .unwrap();
    let mut pair = Pair::new(connection, accepted);
    pair.handshake();
    assert!(pair.client.is_tack() && pair.server.is_tack());
    transfer(&mut pair, 0, MEGABYTE, true);
}

#[test]
fn tack_survives_version_negotiation() {
    let mut client = Config::new(0xbaba_baba).unwrap();
    configure(&mut client);
    let mut server = tack_config();
    let mut connection = tack_client(&mut client);
    let mut buffer = vec![0; 65536];
    let (len, _) = connection.send(&mut buffer).unwrap();
    let header = quiche::Header::from_slice(&mut buffer[..len], 16).unwrap();
    assert!(!quiche::version_is_supported(header.version));
    let mut answer = vec![0; 1500];
    let len = quiche::negotiate_version(&header.scid, &header.dcid, &mut answer).unwrap();
    let info = quiche::RecvInfo { from: server_address(), to: client_address() };
    connection.recv(&mut answer[..len], info).unwrap();
    let mut pair = Pair::new(connection, tack_server(&mut server));
    pair.handshake();
    assert!(pair.client.is_tack() && pair.server.is_tack());
    transfer(&mut pair, 0, MEGABYTE, true);
}

#[test]
fn the_idle_timeout_of_a_connection_is_announced_with_the_extensions() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut connection = tack_client(&mut client);
    connection.set_max_idle_timeout(4321).unwrap();
    let mut pair = Pair::new(connection, tack_server(&mut server));
    pair.handshake();
    assert_eq!(pair.server.peer_transport_params().unwrap().max_idle_timeout, 4321);
    assert!(pair.server.is_tack());
}

#[test]
fn the_idle_timeout_of_a_servers_connection_is_announced_with_the_extensions() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut connection = tack_server(&mut server);
    connection.set_max_idle_timeout(4321).unwrap();
    let mut pair = Pair::new(tack_client(&mut client), connection);
    pair.handshake();
    assert_eq!(pair.client.peer_transport_params().unwrap().max_idle_timeout, 4321);
    assert!(pair.client.is_tack());
}

#[test]
fn a_client_may_have_eight_addresses_with_tack_and_as_many_as_quiche_lets_it_without() {
    let announced_ids = |server: &mut Config| {
        let mut pair = Pair::new(tack_client(&mut tack_config()), tack_server(server));
        pair.handshake();
        pair.client.peer_transport_params().unwrap().active_conn_id_limit
    };
    let mut config = tack_config();
    assert_eq!(announced_ids(&mut config), 8);
    config.set_profile(Profile::Off);
    assert_eq!(announced_ids(&mut config), 2);
    config.set_profile(Profile::Default);
    assert_eq!(announced_ids(&mut config), 8);
    // What the application has chosen counts in each profile, by whichever type.
    for chosen in [3, 2] {
        let mut config = tack_config();
        config.set_active_connection_id_limit(chosen);
        assert_eq!(announced_ids(&mut config), chosen);
        config.set_profile(Profile::Off);
        assert_eq!(announced_ids(&mut config), chosen);
    }
    let mut config = tack_config();
    let quiches: &mut quiche::Config = &mut config;
    quiches.set_active_connection_id_limit(5);
    assert_eq!(announced_ids(&mut config), 5);
    config.set_profile(Profile::Off);
    assert_eq!(announced_ids(&mut config), 5);
}

#[test]
fn early_data_of_a_resumed_connection_is_acknowledged_and_tack_takes_over() {
    let (mut client, mut server) = (tack_config(), tack_config());
    for config in [&mut client, &mut server] {
        config.enable_early_data();
    }
    server.set_ticket_key(&[7; 48]).unwrap();
    let mut first = Pair::new(tack_client(&mut client), tack_server(&mut server));
    first.handshake();
    first.run_until(|pair| pair.client.session().is_some());
    let session = first.client.session().unwrap().to_vec();

    let mut resumed = tack_client(&mut client);
    resumed.set_session(&session).unwrap();
    let mut pair = Pair::new(resumed, tack_server(&mut server));
    let mut early = 0;
    let (mut received, mut finished, mut buffer) = (Vec::new(), false, vec![0; 65536]);
    let data = pattern(MEGABYTE);
    let mut written = 0;
    pair.run_until(|pair| {
        if pair.client.is_in_early_data() || pair.client.is_established() {
            let sent = pair.client.write(0, &data[written..], true);
            written += sent;
            if !pair.client.is_established() {
                early += sent;
            }
        }
        while let Ok((read, fin)) = pair.server.read(0, &mut buffer) {
            received.extend_from_slice(&buffer[..read]);
            finished |= fin;
        }
        finished
    });
    assert!(pair.client.is_resumed() && early > 0, "no early data was sent");
    assert!(received == data);
    assert!(pair.client.is_tack() && pair.server.is_tack());
    transfer(&mut pair, 4, MEGABYTE, true);
    assert!(pair.client.local_error().is_none() && pair.server.local_error().is_none());
}

#[test]
fn a_key_log_set_behind_the_layers_back_closes_the_connection_with_a_reason() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut connection = tack_client(&mut client);
    let inner: &mut quiche::Connection = &mut connection;
    inner.set_keylog(Box::new(std::io::sink()));
    let mut pair = Pair::new(connection, tack_server(&mut server));
    pair.run_until(|pair| pair.client.local_error().is_some());
    let error = pair.client.local_error().unwrap();
    assert_eq!((error.is_app, error.error_code), (false, 1));
    assert!(String::from_utf8_lossy(&error.reason).contains("key log"));
}
