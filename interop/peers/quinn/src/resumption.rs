//! Session tickets: a store that tells when one has come.

use std::sync::Arc;

use rustls::NamedGroup;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use tokio::sync::Notify;

/// Sessions to be asked for again.
const SESSIONS: usize = 8;

#[derive(Debug)]
pub struct Tickets {
    store: ClientSessionMemoryCache,
    arrived: Notify,
}

impl Tickets {
    pub fn new() -> Arc<Self> {
        let store = ClientSessionMemoryCache::new(SESSIONS);
        Arc::new(Self { store, arrived: Notify::new() })
    }

    /// Waits for the first one.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.store.set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.store.kx_hint(server)
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(
        &self,
        server: ServerName<'static>,
        ticket: Tls13ClientSessionValue,
    ) {
        self.store.insert_tls13_ticket(server, ticket);
        self.arrived.notify_one();
    }

    fn take_tls13_ticket(
        &self,
        server: &ServerName<'static>,
    ) -> Option<Tls13ClientSessionValue> {
        self.store.take_tls13_ticket(server)
    }
}
