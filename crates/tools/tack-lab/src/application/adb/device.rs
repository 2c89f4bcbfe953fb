//! The end that takes the file.

use tack_link::Time;

use super::packet::{Command, Packet, violation};
use crate::application::{Application, ApplicationError, ByteStream, Inbox, Outbox};
use crate::sim::Content;

/// The device's number of its stream.
const STREAM: u32 = 100;

/// A device.
#[derive(Debug)]
pub struct Device {
    /// The most that it lets a host send ahead; `None` if it does not know of delayed ACK.
    most_available: Option<u32>,
    /// The stream that is open.
    open: Option<Stream>,
    received: u64,
    content: Content,
    inbox: Inbox,
    outbox: Outbox,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The host's number.
    remote: u32,
    delayed_ack: bool,
    /// The ASB of the host at first.
    granted: u32,
}

impl Device {
    /// A device that lets hosts send so many bytes ahead, or none if it does not know of delayed ACK.
    pub fn new(most_available: Option<u32>) -> Self {
        Self {
            most_available,
            open: None,
            received: 0,
            content: Content::new(),
            inbox: Packet::inbox(),
            outbox: Outbox::default(),
            is_closed: false,
        }
    }

    /// Bytes of the file that have come.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// The ASB that it granted; `None` without delayed ACK.
    pub fn granted(&self) -> Option<u32> {
        self.open.filter(|stream| stream.delayed_ack).map(|stream| stream.granted)
    }

    fn answer(&mut self, command: Command, remote: u32, payload: Vec<u8>) {
        let arg0 = if command == Command::Close { 0 } else { STREAM };
        Packet { command, arg0, arg1: remote, payload }.encode(&mut self.outbox);
    }

    fn on_packet(&mut self, packet: &Packet) -> Result<(), ApplicationError> {
        match (packet.command, self.open) {
            (Command::Open, None) => self.on_open(packet.arg0, packet.arg1),
            (Command::Write, Some(stream)) if packet.arg1 == STREAM => {
                if !self.content.matches(self.received, &packet.payload) {
                    let at = self.received;
                    return Err(violation(format!("other data than was sent, from {at} on")));
                }
                self.received += packet.payload.len() as u64;
                let bytes = (packet.payload.len() as u32).to_le_bytes();
                let payload = if stream.delayed_ack { bytes.to_vec() } else { Vec::new() };
                self.answer(Command::Okay, stream.remote, payload);
            }
            (Command::Close, Some(stream)) => {
                self.answer(Command::Close, stream.remote, Vec::new());
                self.is_closed = true;
            }
            (command, _) => {
                return Err(violation(format!("{} that was not expected", command.name())));
            }
        }
        Ok(())
    }

    fn on_open(&mut self, remote: u32, wish: u32) {
        match (wish, self.most_available) {
            (0, _) => {
                self.open = Some(Stream { remote, delayed_ack: false, granted: 0 });
                self.answer(Command::Okay, remote, Vec::new());
            }
            (_, None) => self.answer(Command::Close, remote, Vec::new()),
            (wish, Some(most)) => {
                let granted = wish.min(most);
                self.open = Some(Stream { remote, delayed_ack: true, granted });
                self.answer(Command::Okay, remote, granted.to_le_bytes().to_vec());
            }
        }
    }
}

impl Application for Device {
    fn turn(
        &mut self,
        stream: &mut dyn ByteStream,
        _now: Time,
    ) -> Result<(), ApplicationError> {
        loop {
            let arrived = self.inbox.fill(stream);
            while let Some(packet) = Packet::decode(&mut self.inbox)? {
                self.on_packet(&packet)?;
            }
            if arrived == 0 {
                break;
            }
        }
        self.outbox.flush(stream);
        Ok(())
    }

    fn next_event(&self) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        self.is_closed
    }
}
