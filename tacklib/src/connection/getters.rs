//! quiche's getters whose answers hold under the layer.
//!
//! A method call would reach them through `Deref`. A program that names one by its path, such as
//! `connections.retain(|_, c| !c.is_closed())` written as `Connection::is_closed`, would not.

use std::net::SocketAddr;
use std::time::Duration;

use quiche::{
    BufFactory, ConnectionError, ConnectionId, SocketAddrIter, StreamIter, TransportParams,
};

use super::Connection;

/// Defines methods that ask quiche.
macro_rules! quiches {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        impl<F: BufFactory> Connection<F> {
            $(
                #[doc = concat!("As [`quiche::Connection::", stringify!($name), "`].")]
                pub fn $name(&self $(, $argument: $type)*) -> $result {
                    self.inner.$name($($argument),*)
                }
            )*
        }
    };
}

quiches! {
    fn active_scids(&self) -> usize;
    fn application_proto(&self) -> &[u8];
    fn available_dcids(&self) -> usize;
    fn destination_id(&self) -> ConnectionId<'_>;
    fn dgram_recv_front_len(&self) -> Option<usize>;
    fn dgram_recv_peek(&self, buf: &mut [u8], len: usize) -> quiche::Result<usize>;
    fn dgram_recv_queue_byte_size(&self) -> usize;
    fn dgram_recv_queue_len(&self) -> usize;
    fn dgram_send_queue_byte_size(&self) -> usize;
    fn dgram_send_queue_len(&self) -> usize;
    fn early_data_reason(&self) -> u32;
    fn is_closed(&self) -> bool;
    fn is_dgram_recv_queue_full(&self) -> bool;
    fn is_dgram_send_queue_full(&self) -> bool;
    fn is_draining(&self) -> bool;
    fn is_established(&self) -> bool;
    fn is_in_early_data(&self) -> bool;
    fn is_path_validated(&self, from: SocketAddr, to: SocketAddr) -> quiche::Result<bool>;
    fn is_readable(&self) -> bool;
    fn is_resumed(&self) -> bool;
    fn is_server(&self) -> bool;
    fn is_timed_out(&self) -> bool;
    fn local_error(&self) -> Option<&ConnectionError>;
    fn max_release_into_future(&self) -> Duration;
    fn max_send_udp_payload_size(&self) -> usize;
    fn paths_iter(&self, from: SocketAddr) -> SocketAddrIter;
    fn peer_cert(&self) -> Option<&[u8]>;
    fn peer_cert_chain(&self) -> Option<Vec<&[u8]>>;
    fn peer_error(&self) -> Option<&ConnectionError>;
    fn peer_streams_left_bidi(&self) -> u64;
    fn peer_streams_left_uni(&self) -> u64;
    fn peer_transport_params(&self) -> Option<&TransportParams>;
    fn pmtu(&self) -> Option<usize>;
    fn readable(&self) -> StreamIter;
    fn retired_scids(&self) -> usize;
    fn scids_left(&self) -> usize;
    fn server_name(&self) -> Option<&str>;
    fn session(&self) -> Option<&[u8]>;
    fn source_id(&self) -> ConnectionId<'_>;
    fn source_ids(&self) -> impl Iterator<Item = &ConnectionId<'_>>;
    fn stream_closed(&self, stream_id: u64) -> bool;
    fn stream_finished(&self, stream_id: u64) -> bool;
    fn stream_readable(&self, stream_id: u64) -> bool;
    fn trace_id(&self) -> &str;
}
