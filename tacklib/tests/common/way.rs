//! One direction of the link between a client and a server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Instant;

use quiche::RecvInfo;
use tack_link::pipe::{Pipe, PipeConfig};
use tack_link::{Ecn, Packet};
use tacklib::EcnCodepoint;

use super::{End, instant, link_time};

/// Of whatever a pipe leaves to chance.
const SEED: u64 = 1;

/// What may happen to a datagram on its way: `None` drops it.
pub type Tamper = Box<dyn FnMut(Vec<u8>) -> Option<Vec<u8>>>;

/// What a datagram's codepoint is when it arrives: `None` drops the datagram.
pub type Marker = Box<dyn FnMut(EcnCodepoint) -> Option<EcnCodepoint>>;

/// From one end to the other, over a pipe. What tampers with datagrams sits in front of it, what
/// changes their codepoints behind it.
pub struct Way {
    from: SocketAddr,
    to: SocketAddr,
    config: PipeConfig,
    pipe: Pipe,
    /// Bytes of each datagram beside its content, which take their time too.
    pub headers: u32,
    pub tamper: Option<Tamper>,
    pub marker: Option<Marker>,
    pub is_held: bool,
    /// Bytes, as the sending end addressed them, and as the other end got them.
    pub sent_to: HashMap<SocketAddr, usize>,
    pub come_from: HashMap<SocketAddr, usize>,
    pub packets: usize,
}

impl Way {
    /// A wire of no length.
    pub fn new(from: SocketAddr, to: SocketAddr) -> Self {
        let config = PipeConfig::default();
        Self {
            from,
            to,
            pipe: Pipe::new(&config, SEED).unwrap(),
            config,
            headers: 0,
            tamper: None,
            marker: None,
            is_held: false,
            sent_to: HashMap::new(),
            come_from: HashMap::new(),
            packets: 0,
        }
    }

    /// Sets up another pipe. What is under way is lost.
    pub fn configure(&mut self, change: impl FnOnce(&mut PipeConfig)) {
        change(&mut self.config);
        self.pipe = Pipe::new(&self.config, SEED).unwrap();
    }

    /// What the sending end's address is taken for from now on.
    pub fn rebind(&mut self, from: SocketAddr) {
        self.from = from;
    }

    /// Datagrams that its buffer dropped.
    pub fn dropped(&self) -> u64 {
        self.pipe.losses().queue
    }

    /// Takes what an end sends; false if that is nothing.
    pub fn carry(&mut self, end: &mut dyn End) -> bool {
        let mut buffer = [0; 16_384];
        let mut any = false;
        while let Some((len, to)) = end.transmit(&mut buffer) {
            any = true;
            *self.sent_to.entry(to).or_default() += len;
            self.packets += 1;
            let datagram = buffer[..len].to_vec();
            let ecn = Ecn::from_bits(end.ecn().bits());
            let kept = match &mut self.tamper {
                Some(tamper) => tamper(datagram),
                None => Some(datagram),
            };
            if let Some(datagram) = kept {
                let now = link_time();
                let size = datagram.len() as u32 + self.headers;
                self.pipe.send(Packet::new(size, 0, now, datagram).with_ecn(ecn), now);
            }
        }
        any
    }

    /// When something arrives next.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.pipe.next_event().filter(|_| !self.is_held).map(instant)
    }

    /// Hands what has arrived to an end; false if that is nothing.
    pub fn deliver(&mut self, end: &mut dyn End) -> bool {
        let mut any = false;
        while !self.is_held
            && let Some((_, packet)) = self.pipe.arrival(link_time())
        {
            let ecn = EcnCodepoint::from_bits(packet.ecn.bits());
            let ecn = match &mut self.marker {
                Some(marker) => marker(ecn),
                None => Some(ecn),
            };
            let Some(ecn) = ecn else { continue };
            let mut datagram = packet.bytes;
            *self.come_from.entry(self.from).or_default() += datagram.len();
            let info = RecvInfo { from: self.from, to: self.to };
            end.receive_with_ecn(&mut datagram, info, ecn);
            any = true;
        }
        any
    }
}
