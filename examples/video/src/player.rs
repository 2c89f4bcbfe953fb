//! The player: from what the connection receives to what a viewer sees.

use std::time::{Duration, Instant};

use anyhow::Result;
use tack_media::{
    Due, FrameReceiver, JitterBuffer, JitterBufferConfig, Missing, Playback, ReceiverEvent,
};
use tacklib::Connection;

use crate::datagrams::DatagramReceiver;
use crate::freezes::Freezes;
use crate::init::Init;
use crate::notice::{Notice, Notices};
use crate::output::Output;
use crate::payload::Payload;
use crate::report::{PlayerReport, SenderReport};
use crate::sample::TrackKind;
use crate::session::END_STREAM;

/// The longest message at the end, bytes.
const MAX_END: usize = 64 << 10;
/// How long behind the end, and its lifetime, a frame may come.
const STRAGGLES: Duration = Duration::from_secs(1);
/// The longest that frames are waited for behind the end.
const GIVES_UP: Duration = Duration::from_secs(10);

/// The share of frames that should be there in time: a key frame is one of eighty with the sound.
const IN_TIME: f64 = 0.995;

/// What came of the end.
#[derive(Debug, Default)]
struct End {
    bytes: Vec<u8>,
    told: Option<Instant>,
    sender: Option<SenderReport>,
}

/// How to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayOptions {
    /// Whether playback stands still for a frame that is missing, instead of going on without it.
    pub waits: bool,
    /// How long a frame is held at least, behind the fastest. A key frame takes longer than the others on a path
    /// that just carries them, and all of its group are broken if it is late.
    pub delay: Duration,
}

/// Plays what a [`Session`](crate::session::Session) sends. It takes the time as an argument.
#[derive(Debug)]
pub struct Player {
    began: Instant,
    streams: FrameReceiver,
    datagrams: DatagramReceiver,
    buffer: JitterBuffer,
    playback: Playback,
    freezes: Freezes,
    output: Option<Output>,
    rendition: Option<u64>,
    /// Of the last key frame that had one.
    init: Option<Init>,
    lifetime: Duration,
    received: u64,
    lost: u64,
    malformed: u64,
    switches: u64,
    resolution_switches: u64,
    /// Bytes of what was shown, and how long its pictures last.
    shown_bytes: u64,
    shown_time: Duration,
    end: End,
    notices: Notices,
}

impl Player {
    /// Counts from `now` on, when the connection is asked for.
    pub fn new(now: Instant, options: PlayOptions, output: Option<Output>) -> Self {
        let mut config = JitterBufferConfig::default();
        config.missing = if options.waits { Missing::Wait } else { Missing::Skip };
        config.shortest = options.delay;
        config.longest = config.longest.max(options.delay);
        config.in_time = IN_TIME;
        Self {
            began: now,
            streams: FrameReceiver::new(),
            datagrams: DatagramReceiver::default(),
            buffer: JitterBuffer::new(config),
            playback: Playback::new(now),
            freezes: Freezes::default(),
            output,
            rendition: None,
            init: None,
            lifetime: Duration::ZERO,
            received: 0,
            lost: 0,
            malformed: 0,
            switches: 0,
            resolution_switches: 0,
            shown_bytes: 0,
            shown_time: Duration::ZERO,
            end: End::default(),
            notices: Notices::default(),
        }
    }

    /// Reads what has come.
    pub fn read(&mut self, now: Instant, connection: &mut Connection) {
        self.streams.read(now, connection);
        while let Some(event) = self.streams.poll_event() {
            self.on_event(event);
        }
        self.datagrams.read(now, connection);
        while let Some(event) = self.datagrams.poll_event() {
            self.on_event(event);
        }
        self.read_end(now, connection);
    }

    /// Shows what is due.
    pub fn show(&mut self, now: Instant) {
        while let Some(due) = self.buffer.pop(now) {
            self.on_due(now, &due);
        }
    }

    /// When there is something to show, if nothing comes before.
    pub fn next_at(&self) -> Option<Instant> {
        self.buffer.next_at()
    }

    /// What a person should know, since the last call.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop()
    }

    /// Whether all has been shown that will come.
    pub fn is_over(&self, now: Instant) -> bool {
        let Some(told) = self.end.told else { return false };
        let behind = now.saturating_duration_since(told);
        let all = self.end.sender.as_ref().map(|sender| sender.frames);
        let has_all = all.is_some_and(|all| self.received + self.lost + self.malformed >= all);
        let is_late = behind > self.lifetime.min(GIVES_UP) + STRAGGLES;
        self.buffer.next_at().is_none() && (has_all || is_late) || behind > 2 * GIVES_UP
    }

    /// Writes the rest of the output; what was played.
    pub fn finish(mut self, now: Instant) -> Result<PlayerReport> {
        let report = self.report(now);
        if let Some(output) = self.output.take() {
            anyhow::ensure!(
                !output.is_empty() || report.shown == 0,
                "nothing was written: what the sender sends is synthetic, and no decoder reads that"
            );
            output.finish()?;
        }
        Ok(report)
    }

    /// What was played until now.
    pub fn report(&self, now: Instant) -> PlayerReport {
        let playback = self.playback.report(now, &self.buffer);
        // The sound may have begun before it.
        let startup = self.freezes.first().map(|at| at.saturating_duration_since(self.began));
        let ended = self.end.told.is_some();
        let (freezes, stood, ratio) = self.freezes.at(self.end.told.unwrap_or(now), ended);
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (written, not_written) = self.output.as_ref().map_or((0, 0), Output::counts);
        let all = self.end.sender.as_ref().map(|sender| sender.frames);
        PlayerReport {
            startup_ms: startup.map(ms),
            rebuffering_ms: ms(stood),
            rebuffering_ratio: ratio,
            freezes,
            received: self.received,
            shown: playback.shown,
            broken: playback.broken,
            late: playback.late,
            lost: playback.lost,
            missing: all.map(|all| all.saturating_sub(self.received + self.lost)),
            parts_lost: self.datagrams.parts_lost(),
            malformed: self.malformed + self.datagrams.malformed(),
            frame_delay_p50_ms: ms(playback.frame_delay_p50),
            frame_delay_p99_ms: ms(playback.frame_delay_p99),
            jitter_buffer_ms: ms(self.buffer.delay()),
            switches: self.switches,
            resolution_switches: self.resolution_switches,
            mean_bits_per_second: self.shown_bytes as f64 * 8.0
                / self.shown_time.as_secs_f64().max(1e-9)
                * f64::from(u8::from(!self.shown_time.is_zero())),
            written,
            not_written,
            sender: self.end.sender.clone(),
        }
    }

    fn on_event(&mut self, event: ReceiverEvent) {
        match &event {
            ReceiverEvent::Frame(frame) => {
                self.received += 1;
                self.lifetime = frame.header.lifetime;
            }
            ReceiverEvent::Malformed { stream_id, error } => {
                self.malformed += 1;
                self.notices.push(Notice::BadFrame(format!("stream {stream_id}: {error}")));
            }
            _ => self.lost += 1,
        }
        self.playback.on_event(&mut self.buffer, event);
    }

    fn on_due(&mut self, now: Instant, due: &Due) {
        let payload = match Payload::decode(&due.frame.payload) {
            Ok(payload) => payload,
            Err(error) => {
                self.malformed += 1;
                self.notices.push(Notice::BadFrame(error.to_string()));
                return;
            }
        };
        self.playback.on_shown(due);
        if !due.is_whole {
            // A decoder would make a grey picture of it; the viewer keeps the last one.
            return;
        }
        let sample = &payload.sample;
        if !due.is_late {
            self.shown_bytes += sample.data.len() as u64;
        }
        if sample.kind == TrackKind::Video && !due.is_late {
            self.freezes.on_picture(now, sample.lasts());
            self.shown_time += sample.lasts();
            let last = self.rendition.replace(payload.rendition);
            self.switches += u64::from(last.is_some_and(|last| last != payload.rendition));
        }
        let init = self.new_init(&payload.init);
        if let Some(output) = &mut self.output {
            output.write(sample, init, &mut self.notices);
        }
    }

    /// Reads an initialisation segment, if it is another than the last.
    fn new_init(&mut self, bytes: &[u8]) -> Option<Init> {
        if bytes.is_empty() || self.init.as_ref().is_some_and(|init| init.bytes() == bytes) {
            return None;
        }
        let init = match Init::parse(bytes) {
            Ok(init) => init,
            Err(error) => {
                self.malformed += 1;
                self.notices
                    .push(Notice::BadFrame(format!("its initialisation segment: {error:#}")));
                return None;
            }
        };
        let to = init.resolution();
        if let Some(from) = self.init.replace(init.clone()).map(|last| last.resolution())
            && from != to
        {
            self.resolution_switches += 1;
            self.notices.push(Notice::Resolution { from, to });
        }
        Some(init)
    }

    fn read_end(&mut self, now: Instant, connection: &mut Connection) {
        let mut chunk = [0; 4096];
        while self.end.told.is_none() {
            // Fails as long as the stream does not exist.
            let Ok((len, is_end)) = connection.stream_recv(END_STREAM, &mut chunk) else {
                return;
            };
            self.end.bytes.extend_from_slice(&chunk[..len]);
            if !is_end && self.end.bytes.len() <= MAX_END {
                continue;
            }
            self.end.told = Some(now);
            match serde_json::from_slice(&self.end.bytes) {
                Ok(sender) => self.end.sender = Some(sender),
                Err(error) => {
                    self.notices
                        .push(Notice::BadFrame(format!("the end of the media: {error}")));
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test counts from some instant
mod tests {
    use tack_media::{FrameHeader, FrameKind, ReceivedFrame};

    use super::*;
    use crate::sample::Sample;

    const MS: Duration = Duration::from_millis(1);

    /// A frame that has come so long behind the start.
    fn frame(start: Instant, at: u32, number: u64, kind: FrameKind) -> ReceivedFrame {
        let sample = Sample {
            track: 1,
            kind: if kind == FrameKind::Audio { TrackKind::Audio } else { TrackKind::Video },
            timescale: 1000,
            decode_time: 0,
            duration: 33,
            composition_offset: 0,
            is_sync: kind == FrameKind::Key,
            is_reference: true,
            data: vec![1; 10],
        };
        let payload =
            Payload { rendition: 0, bits_per_second: 1_000_000, init: Vec::new(), sample };
        let payload = payload.encode();
        let header = FrameHeader {
            kind,
            layer: 0,
            number,
            depends_on: None,
            captured: at * MS,
            lifetime: 500 * MS,
            len: payload.len(),
        };
        ReceivedFrame { header, payload, arrived: start + at * MS }
    }

    #[test]
    fn the_start_is_the_first_picture_and_not_the_sound_before_it() {
        let start = Instant::now();
        let options = PlayOptions { waits: false, delay: 100 * MS };
        let mut player = Player::new(start, options, None);
        player.on_event(ReceiverEvent::Frame(frame(start, 100, 0, FrameKind::Audio)));
        player.show(start + 300 * MS);
        assert_eq!(player.report(start + 300 * MS).shown, 1);
        assert_eq!(player.report(start + 300 * MS).startup_ms, None);
        player.on_event(ReceiverEvent::Frame(frame(start, 1100, 1, FrameKind::Key)));
        player.show(start + 1200 * MS);
        let startup = player.report(start + 1300 * MS).startup_ms.unwrap();
        assert!((startup - 1200.0).abs() < 1.0, "{startup}");
    }
}
