//! The medium that all stations share.

use crate::random::stream;
use crate::{Packet, Time};

use super::contention::Contention;
use super::flow::{Flow, FlowConfig, Frame};
use super::{Parameters, Timing};

/// Random streams: each station and each flow has its own.
const BACKOFF_STREAMS: u64 = 0x1000;
const ERROR_STREAMS: u64 = 0x2000;

/// A packet that has come to the end of its hop.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub at: Time,
    /// The flow that it was queued in.
    pub flow: usize,
    pub packet: Packet,
}

/// Stations in range of each other, and what is on the air.
#[derive(Clone, Debug)]
pub(super) struct Medium {
    timing: Timing,
    stations: Vec<Station>,
    flows: Vec<Flow>,
    /// More than one is a collision.
    on_air: Vec<Transmission>,
    /// Packets queued so far.
    queued: u64,
    delivered: Vec<Packet>,
}

#[derive(Clone, Debug)]
struct Station {
    contention: Contention,
    /// Flows that it sends.
    flows: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Transmission {
    flow: usize,
    frame: Frame,
    ends: Time,
}

impl Medium {
    pub fn new(
        parameters: &Parameters,
        stations: usize,
        flows: Vec<FlowConfig>,
        seed: u64,
    ) -> Self {
        let station = |index: usize| Station {
            contention: Contention::new(
                parameters,
                stream(seed, BACKOFF_STREAMS + index as u64),
            ),
            flows: (0..flows.len()).filter(|flow| flows[*flow].from == index).collect(),
        };
        let stations: Vec<Station> = (0..stations).map(station).collect();
        let errors = |index: usize| stream(seed, ERROR_STREAMS + index as u64);
        let flows = flows.into_iter().enumerate();
        let mut medium = Self {
            timing: parameters.timing(),
            stations,
            flows: flows.map(|(index, config)| Flow::new(config, errors(index))).collect(),
            on_air: Vec::new(),
            queued: 0,
            delivered: Vec::new(),
        };
        for station in 0..medium.stations.len() {
            medium.saturate(station, Time::ZERO);
            if medium.pending(station) {
                medium.stations[station].contention.succeeded(); // it was busy before, too
            }
        }
        medium
    }

    pub fn flow(&self, flow: usize) -> &Flow {
        &self.flows[flow]
    }

    /// Queues a packet at the station that sends the flow. Everything up to `now` must have been
    /// done: see [`step`](Self::step).
    pub fn queue(&mut self, flow: usize, packet: Packet, now: Time) {
        let station = self.flows[flow].from();
        let had_frames = self.pending(station);
        self.queued += 1;
        self.flows[flow].queue(packet, self.queued);
        if !had_frames && self.pending(station) {
            let on_air = !self.on_air.is_empty();
            self.stations[station].contention.frame_queued(now, on_air);
        }
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<Time> {
        let access = self.next_access().map(|(at, _)| at);
        access.into_iter().chain(self.end_of_air()).min()
    }

    /// Does the one thing that happens at [`next_event`](Self::next_event).
    pub fn step(&mut self, deliveries: &mut Vec<Delivery>) {
        match (self.next_access(), self.end_of_air()) {
            (Some((at, station)), end) if end.is_none_or(|end| at < end) => {
                self.transmit(station, at);
            }
            (_, Some(end)) => self.conclude(end, deliveries),
            (_, None) => {}
        }
    }

    /// Who is the next to send, and when.
    ///
    /// While the medium is busy, these are the stations that can't be stopped any more.
    fn next_access(&self) -> Option<(Time, usize)> {
        let pending = (0..self.stations.len()).filter(|station| self.pending(*station));
        let access = |station: usize| {
            let at = self.stations[station].contention.access()?;
            Some((at, station))
        };
        pending.filter_map(access).min()
    }

    fn end_of_air(&self) -> Option<Time> {
        self.on_air.iter().map(|transmission| transmission.ends).max()
    }

    fn pending(&self, station: usize) -> bool {
        self.stations[station].flows.iter().any(|flow| self.flows[*flow].pending())
    }

    fn transmit(&mut self, station: usize, at: Time) {
        if self.on_air.is_empty() {
            self.stop_others(station, at);
        }
        let sender = &mut self.stations[station];
        sender.contention.transmits();
        let by_turn = |flow: &usize| self.flows[*flow].turn().map(|turn| (turn, *flow));
        if let Some((_, flow)) = sender.flows.iter().filter_map(by_turn).min() {
            let (frame, duration) = self.flows[flow].transmit();
            self.on_air.push(Transmission { flow, frame, ends: at + duration });
        }
        self.saturate(station, at);
    }

    /// Everyone stops counting who will notice the sender before sending.
    fn stop_others(&mut self, sender: usize, at: Time) {
        let noticed = at + self.timing.notice;
        for station in 0..self.stations.len() {
            let access = self.stations[station].contention.access();
            let sends_too = self.pending(station) && access.is_some_and(|at| at < noticed);
            if station != sender && !sends_too {
                self.stations[station].contention.medium_busy(at);
            }
        }
    }

    fn saturate(&mut self, station: usize, now: Time) {
        for flow in &self.stations[station].flows {
            self.queued += 1;
            self.flows[*flow].saturate(self.queued, now);
        }
    }

    /// What was on the air has ended.
    fn conclude(&mut self, end: Time, deliveries: &mut Vec<Delivery>) {
        let transmissions = std::mem::take(&mut self.on_air);
        if let [alone] = transmissions[..] {
            self.receive(alone, deliveries);
        } else {
            self.collide(&transmissions, end);
        }
        self.on_air = transmissions;
        self.on_air.clear();
    }

    fn receive(&mut self, transmission: Transmission, deliveries: &mut Vec<Delivery>) {
        let Transmission { flow, frame, ends } = transmission;
        let response = self.flows[flow].receive(frame, &mut self.delivered);
        let arrive = |packet| Delivery { at: ends, flow, packet };
        deliveries.extend(self.delivered.drain(..).map(arrive));
        match response {
            Some(response) => self.respond(flow, ends + self.timing.sifs + response),
            None => self.stay_silent(flow, frame, ends),
        }
    }

    fn respond(&mut self, flow: usize, end: Time) {
        let counts_from = end + self.timing.ifs;
        for station in &mut self.stations {
            station.contention.medium_idle(end, counts_from);
        }
        self.stations[self.flows[flow].from()].contention.succeeded();
    }

    /// All MPDUs were damaged. The others wait for the response that the frame announced (NAV,
    /// 802.11-2016, 10.3.2.4), the receiver waits for an EIFS, the sender for its timeout.
    fn stay_silent(&mut self, flow: usize, frame: Frame, end: Time) {
        let response = match frame {
            Frame::Data { mpdus: 1 } => self.timing.ack,
            _ => self.timing.block_ack,
        };
        let nav = end + self.timing.sifs + response;
        for station in &mut self.stations {
            station.contention.medium_idle(nav, nav + self.timing.ifs);
        }
        let receiver = self.flows[flow].to();
        self.stations[receiver].contention.medium_idle(end, end + self.timing.eifs);
        self.time_out(self.flows[flow].from(), end, end);
    }

    /// Nobody got anything. Those who listened wait for an EIFS. Those who sent did not hear a
    /// frame begin, so they wait for the usual time after their timeout, or after the end of the
    /// longer transmission.
    fn collide(&mut self, transmissions: &[Transmission], end: Time) {
        for station in &mut self.stations {
            station.contention.medium_idle(end, end + self.timing.eifs);
        }
        for transmission in transmissions {
            let flow = &mut self.flows[transmission.flow];
            flow.collide(transmission.frame);
            let sender = flow.from();
            self.time_out(sender, transmission.ends, end);
        }
    }

    /// The sender's frame ended at `sent`, and no response comes; the medium is idle from `idle`
    /// on. The interframe space follows the timeout (802.11-2016, 10.22.2.4 c) 1)).
    fn time_out(&mut self, sender: usize, sent: Time, idle: Time) {
        let from = idle.max(sent + self.timing.response_timeout) + self.timing.ifs;
        let contention = &mut self.stations[sender].contention;
        contention.medium_idle(idle, from);
        contention.failed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wlan::ampdu::Limits;
    use crate::wlan::{Options, Profile};

    const LISTENER: usize = 2;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1_000)
    }

    /// Three stations; flows between them, as pairs of sender and receiver. Windows of one slot
    /// take chance away: all backoffs are zero.
    fn medium(profile: Profile, mpdu_error_rate: f64, flows: &[(usize, usize)]) -> Medium {
        let options = Options { cw_min: Some(0), cw_max: Some(0), ..Options::default() };
        let parameters = Parameters::new(profile, &options).unwrap();
        let flow = |&(from, to): &(usize, usize)| FlowConfig {
            from,
            to,
            limits: Limits::new(&parameters, true),
            queue_bytes: 1_000_000,
            mpdu_error_rate,
            saturated_with: None,
        };
        Medium::new(&parameters, 3, flows.iter().map(flow).collect(), 1)
    }

    fn queue(medium: &mut Medium, flow: usize, packets: u32, now: Time) {
        for number in 0..packets {
            let packet = Packet::new(1500, number, now, Vec::new());
            medium.queue(flow, packet, now);
        }
    }

    /// Lets everything happen up to the end of what is on the air first, and returns that.
    fn first_end(medium: &mut Medium) -> Time {
        let mut deliveries = Vec::new();
        while medium.on_air.is_empty() || medium.next_event() != medium.end_of_air() {
            medium.step(&mut deliveries);
        }
        let end = medium.end_of_air().unwrap();
        medium.step(&mut deliveries);
        end
    }

    fn waits_us(medium: &Medium, station: usize, since: Time) -> u64 {
        let access = medium.stations[station].contention.access().unwrap();
        access.since(since).as_micros() as u64
    }

    #[test]
    fn after_a_collision_the_longer_one_waits_for_its_timeout_too() {
        let mut medium = medium(Profile::N, 0.0, &[(0, 2), (1, 2)]);
        queue(&mut medium, 0, 14, Time::ZERO);
        queue(&mut medium, 1, 1, Time::ZERO);
        let end = first_end(&mut medium);
        assert_eq!(medium.flow(0).statistics().collisions, 1);
        assert_eq!(waits_us(&medium, 0, end), 16 + 9 + 20 + 43);
        assert_eq!(waits_us(&medium, 1, end), 43);
    }

    #[test]
    fn those_who_heard_a_collision_wait_for_an_eifs() {
        for (profile, eifs) in [(Profile::B, 364), (Profile::G, 88), (Profile::Ac, 103)] {
            let mut medium = medium(profile, 0.0, &[(0, 2), (1, 2)]);
            queue(&mut medium, 0, 1, Time::ZERO);
            queue(&mut medium, 1, 1, Time::ZERO);
            let end = first_end(&mut medium);
            assert_eq!(waits_us(&medium, LISTENER, end), eifs, "{profile}");
        }
    }

    #[test]
    fn after_a_damaged_frame_everyone_waits_for_a_response_in_an_own_way() {
        let mut medium = medium(Profile::N, 1.0, &[(0, 1)]);
        queue(&mut medium, 0, 1, Time::ZERO);
        let end = first_end(&mut medium);
        assert_eq!(waits_us(&medium, 0, end), 45 + 43, "the sender's timeout");
        assert_eq!(waits_us(&medium, 1, end), 103, "the receiver's EIFS");
        assert_eq!(waits_us(&medium, LISTENER, end), 16 + 28 + 43, "the others' NAV");
    }

    #[test]
    fn after_a_success_everyone_waits_for_the_response() {
        for (packets, response) in [(1, 28), (2, 32)] {
            let mut medium = medium(Profile::N, 0.0, &[(0, 1)]);
            queue(&mut medium, 0, packets, Time::ZERO);
            let end = first_end(&mut medium);
            for station in 0..3 {
                assert_eq!(waits_us(&medium, station, end), 16 + response + 43);
            }
        }
    }

    #[test]
    fn a_station_needs_some_time_to_notice_another_one() {
        for (later_us, collisions) in [(5, 1), (7, 0)] {
            let mut medium = medium(Profile::G, 0.0, &[(0, 2), (1, 2)]);
            queue(&mut medium, 0, 1, at(1_000));
            queue(&mut medium, 1, 1, at(1_000 + later_us));
            first_end(&mut medium);
            assert_eq!(medium.flow(0).statistics().collisions, collisions, "{later_us} µs");
        }
    }

    #[test]
    fn the_packet_that_has_waited_longest_goes_first() {
        let mut medium = medium(Profile::G, 0.0, &[(0, 1), (0, 2)]);
        for flow in [1, 0, 1] {
            queue(&mut medium, flow, 1, at(1_000));
        }
        let mut deliveries = Vec::new();
        while medium.next_event().is_some() {
            medium.step(&mut deliveries);
        }
        let order: Vec<usize> = deliveries.iter().map(|delivery| delivery.flow).collect();
        assert_eq!(order, [1, 0, 1]);
    }
}
