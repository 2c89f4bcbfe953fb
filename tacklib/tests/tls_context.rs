//! TLS contexts of the application's, with callbacks.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::sync::{Arc, Mutex};

use boring::ssl::{NameType, SelectCertError, SslContextBuilder, SslMethod};
use common::*;
use tacklib::{Config, Connection, Profile};

/// Counts calls.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<usize>>);

impl Calls {
    fn count(&self) {
        *self.0.lock().unwrap() += 1;
    }

    fn take(&self) -> usize {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn builder() -> SslContextBuilder {
    SslContextBuilder::new(SslMethod::tls()).unwrap()
}

/// A context that counts the lines of its key log.
fn with_key_log(lines: &Calls) -> SslContextBuilder {
    let (lines, mut builder) = (lines.clone(), builder());
    builder.set_keylog_callback(move |_, _| lines.count());
    builder
}

fn with_context(builder: SslContextBuilder) -> Config {
    let mut config =
        Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, builder).unwrap();
    configure(&mut config);
    config
}

fn established(client: &mut Config, server: &mut Config) -> Pair<Connection, Connection> {
    let mut pair = Pair::new(tack_client(client), tack_server(server));
    pair.handshake();
    pair
}

#[test]
fn a_server_that_refuses_clients_which_name_none_speaks_tack() {
    let (calls, mut builder) = (Calls::default(), builder());
    let counted = calls.clone();
    builder.set_select_certificate_callback(move |hello| {
        counted.count();
        match hello.servername(NameType::HOST_NAME) {
            Some("localhost") => Ok(()),
            _ => Err(SelectCertError::ERROR),
        }
    });
    let mut server = with_context(builder);
    for _ in 0..2 {
        let pair = established(&mut tack_config(), &mut server);
        assert!(pair.client.is_tack() && pair.server.is_tack());
        assert_eq!(calls.take(), 1, "one handshake");
    }
}

#[test]
fn a_key_log_callback_gets_as_many_secrets_as_with_quiche() {
    let lines = Calls::default();
    let version = quiche::PROTOCOL_VERSION;
    let mut plain =
        quiche::Config::with_boring_ssl_ctx_builder(version, with_key_log(&lines)).unwrap();
    configure(&mut plain);
    let server = stock_server(&mut stock_config());
    Pair::new(stock_client(&mut plain), server).handshake();
    let secrets = lines.take();
    assert!(secrets >= 4);

    let mut client = with_context(with_key_log(&lines));
    for profile in [Profile::Default, Profile::Off, Profile::Default] {
        client.set_profile(profile);
        // A setting of quiche's own has the layer prepare the configuration anew.
        client.set_max_idle_timeout(10_000);
        let connection = tack_client(&mut client);
        assert_eq!(lines.take(), 0, "there has been no handshake");
        let mut pair = Pair::new(connection, tack_server(&mut tack_config()));
        pair.handshake();
        assert_eq!(pair.client.is_tack(), profile != Profile::Off);
        assert_eq!(lines.take(), secrets, "{profile:?}");
    }
    let mut server = with_context(with_key_log(&lines));
    assert!(established(&mut tack_config(), &mut server).server.is_tack());
    assert_eq!(lines.take(), secrets);
}

#[test]
fn quiches_own_key_log_takes_the_place_of_a_callback_as_with_quiche() {
    let lines = Calls::default();
    let mut client = with_context(with_key_log(&lines));
    client.log_keys();
    let log = log::Log::default();
    let mut connection = tack_client(&mut client);
    connection.set_keylog(Box::new(log.clone()));
    Pair::new(connection, tack_server(&mut tack_config())).handshake();
    assert!(log.take().contains("CLIENT_TRAFFIC_SECRET_0"));
    assert_eq!(lines.take(), 0);
}
