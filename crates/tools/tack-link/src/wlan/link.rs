//! A WLAN as a link between two ends.

use std::collections::VecDeque;

use super::ampdu::Limits;
use super::flow::FlowConfig;
use super::medium::{Delivery, Medium};
use super::source::{FULL_PACKET_BYTES, Source};
use super::{Load, Parameters, Statistics};
use crate::random::child_seed;
use crate::{Arrival, Direction, Link, Losses, Packet, ParameterError, Time};

/// Room for 500 full-size packets, as usual in drivers.
const DEFAULT_QUEUE_BYTES: u64 = 500 * FULL_PACKET_BYTES as u64;
const MOST_BACKGROUND_STATIONS: u32 = 200;
const SOURCE_SEEDS: u64 = 0x3000;

/// A cell and who is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct WlanConfig {
    /// Physical layer and MAC.
    pub parameters: Parameters,
    /// Whether the first end of the link is a station and the second the access point, not the
    /// other way round. With two hops both ends are stations.
    pub uplink: bool,
    /// 1: between access point and station. 2: from a station to another through the access
    /// point, over the same medium.
    pub hops: u32,
    /// Other stations that send packets of 1500 bytes to the access point; at most 200.
    pub background: u32,
    /// How much each of them sends.
    pub background_load: Load,
    /// Size of the drop-tail queue of each station for packets in forward direction, in bytes.
    pub forward_queue_bytes: u64,
    /// The same for packets in reverse direction.
    pub reverse_queue_bytes: u64,
}

impl WlanConfig {
    /// An access point that sends to a station, alone, with room for 500 full-size packets in
    /// each queue.
    pub const fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            uplink: false,
            hops: 1,
            background: 0,
            background_load: Load::Saturated,
            forward_queue_bytes: DEFAULT_QUEUE_BYTES,
            reverse_queue_bytes: DEFAULT_QUEUE_BYTES,
        }
    }

    fn check(&self) -> Result<(), ParameterError> {
        if !(1..=2).contains(&self.hops) {
            return Err(ParameterError::new("hops", self.hops, "1, 2"));
        }
        if self.background > MOST_BACKGROUND_STATIONS {
            let allowed = format!("0 to {MOST_BACKGROUND_STATIONS}");
            return Err(ParameterError::new("background", self.background, allowed));
        }
        self.background_load.check("background_load")
    }
}

/// A link over the 802.11 medium; see the [module](super) for what is modelled.
#[derive(Clone, Debug)]
pub struct Wlan {
    medium: Medium,
    stations: Vec<Role>,
    /// What becomes of a packet at the end of each flow.
    destinations: Vec<Destination>,
    sources: Vec<Source>,
    /// Latest time that the link has been told.
    clock: Time,
    arrivals: VecDeque<Arrival>,
    deliveries: Vec<Delivery>,
}

/// What a station is in the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The access point.
    AccessPoint,
    /// A station at an end of the link.
    Station,
    /// A station that sends background traffic.
    Background,
}

#[derive(Clone, Copy, Debug)]
enum Destination {
    /// An end of the link.
    End(Direction),
    /// The next hop, in that direction.
    Flow(usize, Direction),
    /// Nobody asks.
    Nowhere,
}

impl Destination {
    const fn direction(self) -> Option<Direction> {
        match self {
            Self::End(direction) | Self::Flow(_, direction) => Some(direction),
            Self::Nowhere => None,
        }
    }
}

/// The first flows of a cell: where packets in each direction enter it.
const ENTRY: [usize; 2] = [0, 1];
const ACCESS_POINT: usize = 0;

impl Wlan {
    /// A WLAN in which nothing has been sent; `seed` decides everything that is left to chance.
    ///
    /// Fails if the configuration makes no sense.
    pub fn new(config: &WlanConfig, seed: u64) -> Result<Self, ParameterError> {
        Self::with_own_traffic(config, None, seed)
    }

    /// The same, with packets of 1500 bytes that the first end makes up itself.
    pub(crate) fn with_own_traffic(
        config: &WlanConfig,
        load: Option<Load>,
        seed: u64,
    ) -> Result<Self, ParameterError> {
        config.check()?;
        let mut cell = Cell::new(config, load);
        for _ in 0..config.background {
            cell.add_background(config);
        }
        let source = |(flow, load)| Source::new(flow, load, child_seed(seed, SOURCE_SEEDS));
        Ok(Self {
            medium: Medium::new(&config.parameters, cell.stations.len(), cell.flows, seed),
            stations: cell.stations,
            destinations: cell.destinations,
            sources: cell.loads.into_iter().filter_map(source).collect(),
            clock: Time::ZERO,
            arrivals: VecDeque::new(),
            deliveries: Vec::new(),
        })
    }

    /// What was counted on the transmissions in one direction; over both hops, if there are two.
    pub fn statistics(&self, direction: Direction) -> Statistics {
        self.flows(direction).map(|flow| self.medium.flow(flow).statistics()).sum()
    }

    /// What each station is and what was counted on its transmissions; the access point first,
    /// then the stations at the ends, then background traffic.
    pub fn stations(&self) -> impl Iterator<Item = (Role, Statistics)> + '_ {
        let flows = 0..self.destinations.len();
        self.stations.iter().enumerate().map(move |(station, role)| {
            let sent =
                flows.clone().filter(move |flow| self.medium.flow(*flow).from() == station);
            (*role, sent.map(|flow| self.medium.flow(flow).statistics()).sum())
        })
    }

    fn flows(&self, direction: Direction) -> impl Iterator<Item = usize> + '_ {
        let destinations = self.destinations.iter().enumerate();
        let same = move |destination: &Destination| destination.direction() == Some(direction);
        destinations.filter(move |(_, end)| same(end)).map(|(flow, _)| flow)
    }

    fn next_internal_event(&self) -> Option<Time> {
        let generated = self.sources.iter().map(Source::next);
        generated.chain(self.medium.next_event()).min()
    }

    fn step(&mut self, at: Time) {
        if let Some(source) = self.sources.iter_mut().find(|source| source.next() == at) {
            let (flow, packet) = source.take();
            self.medium.queue(flow, packet, at);
            return;
        }
        self.medium.step(&mut self.deliveries);
        for Delivery { at, flow, packet } in self.deliveries.drain(..) {
            match self.destinations[flow] {
                Destination::End(direction) => {
                    self.arrivals.push_back(Arrival { at, direction, packet });
                }
                Destination::Flow(next, _) => self.medium.queue(next, packet, at),
                Destination::Nowhere => {}
            }
        }
    }

    /// Does what happens up to `now`, until something arrives if `until_arrival`.
    fn run(&mut self, now: Time, until_arrival: bool) {
        while !until_arrival || self.arrivals.is_empty() {
            let Some(at) = self.next_internal_event().filter(|at| *at <= now) else { break };
            self.clock = self.clock.max(at);
            self.step(at);
        }
    }
}

impl Link for Wlan {
    fn send(&mut self, direction: Direction, packet: Packet, now: Time) {
        self.clock = self.clock.max(now);
        self.run(self.clock, false);
        self.medium.queue(ENTRY[direction.index()], packet, self.clock);
    }

    fn next_event(&self) -> Option<Time> {
        match self.arrivals.front() {
            Some(arrival) => Some(arrival.at),
            None => self.next_internal_event(),
        }
    }

    fn arrival(&mut self, now: Time) -> Option<Arrival> {
        self.run(now, true);
        self.clock = self.clock.max(now);
        self.arrivals.pop_front()
    }

    fn losses(&self, direction: Direction) -> Losses {
        let flows = self.flows(direction);
        flows.fold(Losses::default(), |sum, flow| sum + self.medium.flow(flow).losses())
    }

    /// What arrives damaged is sent again by the MAC.
    fn corrupted(&self, _: Direction) -> u64 {
        0
    }
}

/// A cell that is being put together.
struct Cell {
    stations: Vec<Role>,
    flows: Vec<FlowConfig>,
    destinations: Vec<Destination>,
    /// Flows with generated traffic.
    loads: Vec<(usize, Load)>,
}

impl Cell {
    fn new(config: &WlanConfig, load: Option<Load>) -> Self {
        let mut cell = Self {
            stations: vec![Role::AccessPoint, Role::Station],
            flows: Vec::new(),
            destinations: Vec::new(),
            loads: Vec::new(),
        };
        let (first, second) = match (config.hops, config.uplink) {
            (1, false) => (ACCESS_POINT, 1),
            (1, true) => (1, ACCESS_POINT),
            _ => {
                cell.stations.push(Role::Station);
                (1, 2)
            }
        };
        if config.hops == 1 {
            cell.add(config, first, second, Destination::End(Direction::Forward));
            cell.add(config, second, first, Destination::End(Direction::Reverse));
        } else {
            cell.add(config, first, ACCESS_POINT, Destination::Flow(2, Direction::Forward));
            cell.add(config, second, ACCESS_POINT, Destination::Flow(3, Direction::Reverse));
            cell.add(config, ACCESS_POINT, second, Destination::End(Direction::Forward));
            cell.add(config, ACCESS_POINT, first, Destination::End(Direction::Reverse));
        }
        if let Some(load) = load {
            cell.load(ENTRY[Direction::Forward.index()], load);
        }
        cell
    }

    fn add_background(&mut self, config: &WlanConfig) {
        let station = self.stations.len();
        self.stations.push(Role::Background);
        self.add(config, station, ACCESS_POINT, Destination::Nowhere);
        self.load(self.flows.len() - 1, config.background_load);
    }

    fn add(&mut self, config: &WlanConfig, from: usize, to: usize, destination: Destination) {
        let reverse = destination.direction() == Some(Direction::Reverse);
        let parameters = &config.parameters;
        let queue_bytes = match destination.direction() {
            Some(Direction::Forward) => config.forward_queue_bytes,
            Some(Direction::Reverse) => config.reverse_queue_bytes,
            None => DEFAULT_QUEUE_BYTES,
        };
        self.flows.push(FlowConfig {
            from,
            to,
            limits: Limits::new(parameters, !reverse || parameters.aggregate_acks()),
            queue_bytes,
            mpdu_error_rate: parameters.mpdu_error_rate(),
            saturated_with: None,
        });
        self.destinations.push(destination);
    }

    fn load(&mut self, flow: usize, load: Load) {
        if load == Load::Saturated {
            self.flows[flow].saturated_with = Some(FULL_PACKET_BYTES);
        }
        self.loads.push((flow, load));
    }
}
