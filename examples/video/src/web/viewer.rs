//! One page: its request for a session of WebTransport, and what is sent in it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tack_media::SendError;
use tack_proto::varint::{self, Reader};
use tacklib::Connection;
use tacklib::h3::{self, Header, NameValue};

use crate::notice::Notice;
use crate::serve::Open;
use crate::session::{SendOptions, Session};

// Error codes of RFC 9114 section 8.1.
pub const NO_ERROR: u64 = 0x100;
pub const INTERNAL_ERROR: u64 = 0x102;

/// Where the page finds the media.
const PATH: &[u8] = b"/live";
/// Settings by which a server says that it has WebTransport: those of the drafts 2 and 7.
const WEB_TRANSPORT: [(u64, u64); 2] = [(0x2b60_3742, 1), (0xc671_706a, 1)];
/// How often the page is told what the sender measures.
const TELLS_EVERY: Duration = Duration::from_millis(200);

/// HTTP/3 with what browsers ask for before they begin a session.
pub fn settings() -> Result<h3::Config> {
    let mut config = h3::Config::new()?;
    config.enable_extended_connect(true);
    config.set_additional_settings(WEB_TRANSPORT.to_vec())?;
    Ok(config)
}

/// What a page tells, once a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageReport {
    /// Pictures that were shown.
    pub shown: u64,
    /// Pictures that were decoded.
    pub decoded: u64,
    /// Pictures that came so late that the next was shown in their place.
    pub skipped: u64,
    /// Pictures that were not decoded because one that they depend on had not come.
    pub broken: u64,
    /// Messages of the sender.
    pub told: u64,
    /// The size of the last picture.
    pub size: String,
    /// What went wrong.
    pub error: String,
}

/// A page.
pub struct Viewer {
    http: h3::Connection,
    /// The stream of the request, and what is sent.
    session: Option<(u64, Session)>,
    /// When the page was last told, and what had been counted then.
    told: Option<(Instant, Counts)>,
    report: PageReport,
}

#[derive(Clone, Copy)]
struct Counts {
    received: u64,
    tacks: u64,
}

/// What the page is told.
#[derive(Serialize)]
struct Told {
    rtt_ms: f64,
    min_rtt_ms: f64,
    bits_per_second: u64,
    packets_received_per_second: f64,
    tacks_per_second: f64,
    dropped: u64,
    waiting: usize,
}

impl Viewer {
    /// A page that has asked for nothing yet.
    pub fn new(http: h3::Connection) -> Self {
        Self { http, session: None, told: None, report: PageReport::default() }
    }

    /// When there is something to do, if nothing comes before.
    pub fn next_at(&mut self, now: Instant) -> Option<Instant> {
        self.session.as_mut().map(|(_, session)| session.next_at(now))
    }

    /// What a person should know, since the last call.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.session.as_mut().and_then(|(_, session)| session.poll_notice())
    }

    /// What the page has told last.
    pub fn report(&self) -> &PageReport {
        &self.report
    }

    /// Takes requests, and sends what is due.
    pub fn run(
        &mut self,
        connection: &mut Connection,
        now: Instant,
        options: SendOptions,
        open: &mut Open<'_>,
    ) -> Result<()> {
        self.take_requests(connection, now, options, open)?;
        let Some((_, session)) = &mut self.session else { return Ok(()) };
        match session.run(connection, now) {
            // Its end is an event of its own.
            Ok(()) | Err(SendError::Closed) => {}
            Err(error) => return Err(error).context("sending"),
        }
        self.read_reports(connection);
        self.tell(connection, now);
        Ok(())
    }

    fn take_requests(
        &mut self,
        connection: &mut Connection,
        now: Instant,
        options: SendOptions,
        open: &mut Open<'_>,
    ) -> Result<()> {
        loop {
            match self.http.poll(connection) {
                Ok((stream, h3::Event::Headers { list, .. })) => {
                    self.answer(connection, stream, &list)?;
                    if self.session.is_none() && is_session(&list) {
                        let source = open().context("the media cannot be opened")?;
                        let session = Session::over_web_transport(now, source, options, stream);
                        self.session = Some((stream, session));
                    }
                }
                Ok((stream, h3::Event::Data)) => {
                    let mut unwanted = [0; 4096];
                    while self.http.recv_body(connection, stream, &mut unwanted).is_ok() {}
                }
                Ok((stream, h3::Event::Finished | h3::Event::Reset(_))) => {
                    if self.session.as_ref().is_some_and(|(own, _)| *own == stream) {
                        self.session = None;
                        // The page has left. Fails if the connection is closed already.
                        let _ = connection.close(true, NO_ERROR, b"");
                    }
                }
                Ok(_) => {}
                Err(h3::Error::Done) => return Ok(()),
                Err(error) => return Err(error).context("the browser breaks HTTP/3"),
            }
        }
    }

    fn answer(
        &mut self,
        connection: &mut Connection,
        stream: u64,
        fields: &[Header],
    ) -> Result<()> {
        let accepted = is_session(fields) && self.session.is_none();
        let status: &[u8] = if accepted { b"200" } else { b"404" };
        let mut head = vec![Header::new(b":status", status)];
        if accepted {
            head.push(Header::new(b"sec-webtransport-http3-draft", b"draft02"));
        }
        match self.http.send_response(connection, stream, &head, !accepted) {
            Ok(()) => Ok(()),
            // The stream is over.
            Err(h3::Error::TransportError(error)) => {
                log::debug!("stream {stream}: {error}");
                Ok(())
            }
            Err(error) => Err(error).context("answering"),
        }
    }

    /// Reads what the page tells in DATAGRAMs; the last one counts.
    fn read_reports(&mut self, connection: &mut Connection) {
        let mut datagram = [0; 2048];
        while let Ok(len) = connection.dgram_recv(&mut datagram) {
            let mut reader = Reader::new(&datagram[..len]);
            if reader.read_varint().is_err() {
                continue;
            }
            match serde_json::from_slice(reader.take_rest()) {
                Ok(report) => self.report = report,
                Err(error) => log::debug!("what the page tells: {error}"),
            }
        }
    }

    fn tell(&mut self, connection: &mut Connection, now: Instant) {
        let Some((stream, session)) = &self.session else { return };
        let passed = self.told.map(|(at, _)| now.saturating_duration_since(at));
        if passed.is_some_and(|passed| passed < TELLS_EVERY) {
            return;
        }
        let stats = connection.tack_stats();
        let counts = Counts {
            received: connection.stats().recv as u64,
            tacks: stats.tacks_received + stats.iacks_received,
        };
        let last = self.told.replace((now, counts));
        let (Some((_, last)), Some(passed)) = (last, passed) else { return };
        let path = connection.path_stats().find(|path| path.active);
        let ms = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let report = session.report(connection);
        let told = Told {
            rtt_ms: ms(stats.smoothed_rtt.or(path.as_ref().map(|path| path.rtt))),
            min_rtt_ms: ms(stats.min_rtt.or(path.as_ref().and_then(|path| path.min_rtt))),
            bits_per_second: session.bits_per_second(),
            packets_received_per_second: (counts.received - last.received) as f64
                / passed.as_secs_f64(),
            tacks_per_second: (counts.tacks - last.tacks) as f64 / passed.as_secs_f64(),
            dropped: report.dropped.total(),
            waiting: session.backlog(),
        };
        // RFC 9297 section 2.1: a quarter of the stream's ID, and the payload.
        let mut datagram = Vec::new();
        varint::put(&mut datagram, stream / 4);
        datagram.extend(serde_json::to_vec(&told).unwrap_or_default());
        // One that does not fit is left out: another one follows soon.
        let _ = connection.dgram_send(&datagram);
    }
}

/// Whether it asks for a session with the media (RFC 8441).
fn is_session(fields: &[Header]) -> bool {
    let has = |name: &[u8], value: &[u8]| {
        fields.iter().any(|field| field.name() == name && field.value() == value)
    };
    has(b":method", b"CONNECT") && has(b":protocol", b"webtransport") && has(b":path", PATH)
}
