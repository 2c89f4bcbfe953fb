//! Live media over tacklib, in frames instead of bytes.
//!
//! A sender gives frames to a [`FrameSender`]: each leaves on a stream of its own, older ones first, and one
//! that is too late is neither sent nor repeated, nor is what depends on it. An [`EncoderControl`] tells the encoder its
//! bit rate and when a key frame is due; the rate alone comes from an [`EncoderRateControl`]. At the other end a [`FrameReceiver`]
//! puts frames together, a [`JitterBuffer`] says when each is to be shown, and a [`Playback`] counts what the
//! viewer sees: start, stalls, frames that were late, broken or lost.
//!
//! All of it takes the time as an argument and owns no socket, thread or clock, as tacklib.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use tack_media::{EncoderControl, Frame, FrameKind, FrameSender, RateControlConfig};
//!
//! # fn encode(_: u64, _: FrameKind) -> Vec<u8> { Vec::new() }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut connection: tacklib::Connection = todo!();
//! const LIFETIME: Duration = Duration::from_millis(200);
//! let start = Instant::now();
//! let mut sender = FrameSender::new(start);
//! let mut control = EncoderControl::new(start, RateControlConfig::default(), LIFETIME);
//! let mut last = None;
//! loop {
//!     let now = Instant::now();
//!     while let Some(event) = sender.poll_event() {
//!         control.on_event(now, &event);
//!     }
//!     control.update(now, &connection, sender.unwritten());
//!     let kind =
//!         if control.wants_key_frame(now) { FrameKind::Key } else { FrameKind::Delta };
//!     let payload = encode(control.rate(), kind);
//!     let frame = Frame {
//!         kind,
//!         layer: 0,
//!         captured_at: now,
//!         deadline: now + LIFETIME,
//!         depends_on: last.filter(|_| kind == FrameKind::Delta),
//!     };
//!     let number = sender.send_frame(&mut connection, now, frame, payload)?;
//!     control.on_sent(now, number, kind, true);
//!     last = Some(number);
//!     // Send datagrams, and call `sender.flush` whenever the connection has received some.
//! #   break;
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod encoder_control;
mod frame;
mod gone;
mod jitter_buffer;
mod key_frames;
mod late_frames;
mod overshoot;
mod path_rate;
mod playback;
mod quiet;
mod rate_control;
mod receiver;
mod sender;
mod stalls;
mod taken_frames;

pub use encoder_control::EncoderControl;
pub use frame::{Frame, FrameHeader, FrameKind, HeaderError, MAX_PAYLOAD};
pub use jitter_buffer::{Due, JitterBuffer, JitterBufferConfig, Missing};
pub use path_rate::path_stats;
pub use playback::{Playback, PlaybackReport};
pub use rate_control::{EncoderRateControl, RateControlConfig};
pub use receiver::{FrameReceiver, ReceivedFrame, ReceiverEvent};
pub use sender::{DropCause, FrameSender, SendError, SenderEvent};
