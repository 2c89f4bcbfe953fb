//! What a peer does with a connection, the same for quiche's and for ours: they have the same methods and no trait.

use std::time::{Duration, Instant};

use quiche::{RecvInfo, SendInfo};
use tack_link::Ecn as EcnField;
use tack_tap::KeyLog;
use tacklib::{CarefulResumeTrigger, Ecn, EcnCodepoint, MediaStats};

use super::DAY;
use crate::sim::{CarefulResume, Rates};

/// What [`End`](super::End) needs of a connection; ours and quiche's have the same methods.
pub(super) trait Connection: Sized {
    fn plain(&self) -> &quiche::Connection;
    fn recv(
        &mut self,
        datagram: &mut [u8],
        info: RecvInfo,
        ecn: EcnField,
        at: Instant,
    ) -> quiche::Result<usize>;
    fn send(&mut self, out: &mut [u8]) -> quiche::Result<(usize, SendInfo)>;
    fn timeout_instant(&self) -> Option<Instant>;
    fn on_timeout(&mut self);
    fn stream_send(&mut self, id: u64, bytes: &[u8], fin: bool) -> quiche::Result<usize>;
    fn stream_recv(&mut self, id: u64, out: &mut [u8]) -> quiche::Result<(usize, bool)>;
    fn stream_capacity(&mut self, id: u64) -> quiche::Result<usize>;
    fn stream_priority(&mut self, id: u64, urgency: u8) -> quiche::Result<()>;
    fn stop_sending(&mut self, id: u64) -> quiche::Result<()>;
    fn dgram_send(&mut self, datagram: &[u8]) -> quiche::Result<()>;
    fn dgram_recv(&mut self, out: &mut [u8]) -> quiche::Result<usize>;
    fn set_keylog(&mut self, key_log: KeyLog);
    /// What an encoder can go by, where the stack tells.
    fn media_stats(&self) -> Option<MediaStats>;
    /// The share of bytes that were sent to measure the path, where the stack tells.
    fn probing_share(&self) -> Option<f64>;
    /// Sets the deadline of a stream, where the stack has deadlines.
    fn set_stream_deadline(&mut self, id: u64, at: Instant);
    fn min_rtt(&self) -> Option<Duration>;
    /// How fast its controller sends, where the stack tells.
    fn rates(&self) -> Option<Rates>;
    fn set_ecn(&mut self, ecn: Ecn);
    fn send_ecn(&self) -> EcnField;
    fn ecn_marked_and_reported(&self) -> Option<(u64, u64)>;
    fn careful_resume(&self) -> Option<CarefulResume>;
    /// Whether no stream data waits and nothing is in flight, where the stack tells.
    fn is_drained(&self) -> Option<bool>;
}

macro_rules! connection {
    ($type:ty, $min_rtt:expr, $recv:expr, $set_ecn:expr, $send_ecn:expr, $ecn:expr, $resume:expr, $deadline:expr, $drained:expr, $media:expr, $probing:expr, $rates:expr) => {
        impl Connection for $type {
            fn plain(&self) -> &quiche::Connection {
                self
            }

            fn recv(
                &mut self,
                datagram: &mut [u8],
                info: RecvInfo,
                ecn: EcnField,
                at: Instant,
            ) -> quiche::Result<usize> {
                $recv(self, datagram, info, ecn, at)
            }

            fn set_ecn(&mut self, ecn: Ecn) {
                $set_ecn(self, ecn);
            }

            fn send_ecn(&self) -> EcnField {
                $send_ecn(self)
            }

            fn ecn_marked_and_reported(&self) -> Option<(u64, u64)> {
                $ecn(self)
            }

            fn careful_resume(&self) -> Option<CarefulResume> {
                $resume(self)
            }

            fn is_drained(&self) -> Option<bool> {
                $drained(self)
            }

            fn send(&mut self, out: &mut [u8]) -> quiche::Result<(usize, SendInfo)> {
                <$type>::send(self, out)
            }

            fn timeout_instant(&self) -> Option<Instant> {
                <$type>::timeout_instant(self)
            }

            fn on_timeout(&mut self) {
                <$type>::on_timeout(self);
            }

            fn stream_send(
                &mut self,
                id: u64,
                bytes: &[u8],
                fin: bool,
            ) -> quiche::Result<usize> {
                <$type>::stream_send(self, id, bytes, fin)
            }

            fn stream_recv(
                &mut self,
                id: u64,
                out: &mut [u8],
            ) -> quiche::Result<(usize, bool)> {
                <$type>::stream_recv(self, id, out)
            }

            fn stream_capacity(&mut self, id: u64) -> quiche::Result<usize> {
                <$type>::stream_capacity(self, id)
            }

            fn stream_priority(&mut self, id: u64, urgency: u8) -> quiche::Result<()> {
                <$type>::stream_priority(self, id, urgency, false)
            }

            fn stop_sending(&mut self, id: u64) -> quiche::Result<()> {
                <$type>::stream_shutdown(self, id, quiche::Shutdown::Read, 0)
            }

            fn dgram_send(&mut self, datagram: &[u8]) -> quiche::Result<()> {
                <$type>::dgram_send(self, datagram)
            }

            fn dgram_recv(&mut self, out: &mut [u8]) -> quiche::Result<usize> {
                <$type>::dgram_recv(self, out)
            }

            fn set_stream_deadline(&mut self, id: u64, at: Instant) {
                $deadline(self, id, at);
            }

            fn media_stats(&self) -> Option<MediaStats> {
                $media(self)
            }

            fn probing_share(&self) -> Option<f64> {
                $probing(self)
            }

            fn set_keylog(&mut self, key_log: KeyLog) {
                <$type>::set_keylog(self, Box::new(key_log));
            }

            fn min_rtt(&self) -> Option<Duration> {
                $min_rtt(self)
            }

            fn rates(&self) -> Option<Rates> {
                $rates(self)
            }
        }
    };
}

connection!(
    quiche::Connection,
    |connection: &quiche::Connection| connection
        .path_stats()
        .next()
        .and_then(|path| path.min_rtt),
    |connection: &mut quiche::Connection, datagram, info, _, _| connection.recv(datagram, info),
    |_, _| (),
    |_| EcnField::NotEct,
    |_| None,
    |_| None,
    |_, _, _| (),
    |_| None,
    |connection: &quiche::Connection| {
        let path = connection.path_stats().next()?;
        let rtt = path.rtt.as_secs_f64().max(1e-6);
        let mut stats = MediaStats::default();
        stats.estimated_send_rate = (path.cwnd as f64 / rtt) as u64;
        stats.rate_age = Some(Duration::ZERO);
        Some(stats)
    },
    |_| None,
    |_| None
);
connection!(
    tacklib::Connection,
    |connection: &tacklib::Connection| connection.tack_stats().min_rtt,
    |connection: &mut tacklib::Connection, datagram, info, ecn: EcnField, at| {
        connection.recv_at(datagram, info, EcnCodepoint::from_bits(ecn.bits()), at)
    },
    tacklib::Connection::set_ecn,
    |connection: &tacklib::Connection| EcnField::from_bits(connection.send_ecn().bits()),
    |connection: &tacklib::Connection| {
        let stats = connection.tack_stats();
        Some((stats.ecn_marked, stats.ecn_ce_reported))
    },
    |connection: &tacklib::Connection| {
        let stats = connection.tack_stats();
        Some(CarefulResume {
            phase: stats.careful_resume.name(),
            trigger: stats.careful_resume_trigger.map(CarefulResumeTrigger::name),
            observed: connection.cc_parameters(DAY),
        })
    },
    |connection: &mut tacklib::Connection, id, at| {
        // It fails for streams of the other end alone.
        let _ = connection.set_stream_deadline(id, Some(at));
    },
    |connection: &tacklib::Connection| {
        let backlog = connection.media_stats().backlog;
        Some(backlog == 0 && connection.tack_stats().bytes_in_flight == 0)
    },
    |connection: &tacklib::Connection| Some(connection.media_stats()),
    |connection: &tacklib::Connection| {
        let sent = connection.stats().sent_bytes.max(1);
        Some(connection.tack_stats().train_bytes as f64 / sent as f64)
    },
    |connection: &tacklib::Connection| {
        let stats = connection.tack_stats();
        let mbps = |bytes_per_second: u64| bytes_per_second as f64 * 8e-6;
        Some(Rates {
            bandwidth_mbps: mbps(stats.bandwidth),
            pacing_mbps: mbps(stats.pacing_rate),
        })
    }
);
