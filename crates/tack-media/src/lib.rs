//! Live media over tacklib, in frames instead of bytes.
//!
//! A sender gives frames to a [`FrameSender`]: each leaves on a stream of its own, older ones first, and one
//! that is too late is neither sent nor repeated, nor is what depends on it. An [`EncoderRateControl`] turns
//! [`MediaStats`](tacklib::MediaStats) into the bit rate of an encoder. At the other end a [`FrameReceiver`]
//! puts frames together, a [`JitterBuffer`] says when each is to be shown, and a [`Playback`] counts what the
//! viewer sees: start, stalls, frames that were late, broken or lost.
//!
//! All of it takes the time as an argument and owns no socket, thread or clock, as tacklib.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use tack_media::{EncoderRateControl, Frame, FrameKind, FrameSender, RateControlConfig};
//!
//! # fn encode(_: u64) -> Vec<u8> { Vec::new() }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut connection: tacklib::Connection = todo!();
//! let mut sender = FrameSender::new(Instant::now());
//! let mut control = EncoderRateControl::new(RateControlConfig::default());
//! let mut last = None;
//! loop {
//!     let now = Instant::now();
//!     let bits_per_second = control.update(now, &connection.media_stats());
//!     let payload = encode(bits_per_second);
//!     let frame = Frame {
//!         kind: if last.is_none() { FrameKind::Key } else { FrameKind::Delta },
//!         layer: 0,
//!         captured_at: now,
//!         deadline: now + Duration::from_millis(200),
//!         depends_on: last,
//!     };
//!     last = Some(sender.send_frame(&mut connection, now, frame, payload)?);
//!     // Send datagrams, and call `sender.flush` whenever the connection has received some.
//! #   break;
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod frame;
mod gone;
mod jitter_buffer;
mod late_frames;
mod path_rate;
mod playback;
mod rate_control;
mod receiver;
mod sender;

pub use frame::{Frame, FrameHeader, FrameKind, HeaderError, MAX_PAYLOAD};
pub use jitter_buffer::{Due, JitterBuffer, JitterBufferConfig, Missing};
pub use path_rate::path_stats;
pub use playback::{Playback, PlaybackReport};
pub use rate_control::{EncoderRateControl, RateControlConfig};
pub use receiver::{FrameReceiver, ReceivedFrame, ReceiverEvent};
pub use sender::{DropCause, FrameSender, SendError, SenderEvent};
