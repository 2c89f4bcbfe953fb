//! The event loop: what happens next, until time is up.

use std::io::Write;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_link::{Arrival, Direction, Ecn, Link, Packet, Time};
use tack_tap::KeyLog;
use tack_virtual::Virtual;

use super::applications::Applications;
use super::busy::BusyProcess;
use super::call::CallRun;
use super::content::Content;
use super::frames::FramesRun;
use super::identity::Identity;
use super::media::MediaSource;
use super::peer::Peer;
use super::probe::{HEADERS, Probe};
use super::trace::{Event, Trace};
use crate::application::Application;

use super::{
    EndConfig, Error, Flow, FlowReport, Load, Scenario, ScenarioReport, Stack, quiche, quinn,
};

/// Rounds without progress of time after which a simulation is given up.
const PATIENCE: u32 = 100_000;

/// What has not come out of the link so long after the last packet that did is lost: longer than
/// any outage or delay of the lab.
const DRAINED_AFTER: Duration = Duration::from_secs(10);

/// A UDP payload that quiche and quinn can send at least, and the most that an Ethernet packet
/// holds.
const UDP_PAYLOAD: std::ops::RangeInclusive<usize> = 1200..=1472;

/// Runs a scenario on this thread, as fast as it goes.
pub fn run(scenario: &Scenario) -> Result<ScenarioReport, Error> {
    run_traced(scenario, None)
}

/// Runs a scenario and writes a line for each packet.
pub fn run_traced<'a>(
    scenario: &'a Scenario,
    trace: Option<&'a mut dyn Write>,
) -> Result<ScenarioReport, Error> {
    if scenario.flows.iter().any(|flow| flow.load == Load::Applications) {
        let problem = "applications, which this run was not given".to_owned();
        return Err(Error::Scenario { field: "load", problem });
    }
    run_world(scenario, trace, None)
}

/// Runs a scenario of one flow, whose load is [`Load::Applications`], with the two ends of an application
/// protocol. It ends when the client has finished, or with the time of the scenario.
pub fn run_applications<'a>(
    scenario: &'a Scenario,
    client: &'a mut dyn Application,
    server: &'a mut dyn Application,
) -> Result<ScenarioReport, Error> {
    if !matches!(&scenario.flows[..], [flow] if flow.load == Load::Applications) {
        let problem = "one flow of applications, for a protocol to run over".to_owned();
        return Err(Error::Scenario { field: "load", problem });
    }
    run_world(scenario, None, Some(Applications::new(client, server)))
}

fn run_world<'a>(
    scenario: &'a Scenario,
    trace: Option<&'a mut dyn Write>,
    mut applications: Option<Applications<'a>>,
) -> Result<ScenarioReport, Error> {
    check(scenario)?;
    Identity::get()?; // it is not to be made in virtual time
    let paths: Vec<_> = scenario.flows.iter().map(|flow| flow.path).collect();
    let link = scenario.link.build_shared(&paths, scenario.seed)?;
    let time = Virtual::enter(scenario.seed);
    let mut world = World {
        scenario,
        epoch: Instant::now(),
        clock: time,
        now: Time::ZERO,
        link,
        content: Content::new(),
        flows: Vec::new(),
        trace: Trace::new(trace),
    };
    let mut seeds = Pcg64Mcg::seed_from_u64(scenario.seed);
    for (index, flow) in scenario.flows.iter().enumerate() {
        let running = Running::new(index, flow, scenario, seeds.next_u64());
        let applications = applications.take();
        world.flows.push(Running { applications, ..running });
    }
    world.run()?;
    world.drain();
    world.report()
}

fn check(scenario: &Scenario) -> Result<(), Error> {
    let wrong = |field, problem: String| Err(Error::Scenario { field, problem });
    if scenario.duration.is_zero() {
        return wrong("--seconds", "more than 0".to_owned());
    }
    if scenario.warm_up >= scenario.duration {
        let whole = scenario.duration.as_secs_f64();
        return wrong("--warm-up", format!("shorter than the run, {whole} s"));
    }
    for flow in &scenario.flows {
        if !UDP_PAYLOAD.contains(&flow.udp_payload) {
            let (least, most) = (UDP_PAYLOAD.start(), UDP_PAYLOAD.end());
            return wrong("--udp-payload", format!("from {least} to {most} bytes"));
        }
    }
    Ok(())
}

struct World<'a> {
    scenario: &'a Scenario,
    /// What the clock shows at [`Time::ZERO`].
    epoch: Instant,
    clock: Virtual,
    now: Time,
    link: Box<dyn Link + Send>,
    content: Content,
    flows: Vec<Running<'a>>,
    trace: Trace<'a>,
}

/// A flow and its two ends.
struct Running<'a> {
    index: usize,
    flow: &'a Flow,
    seed: u64,
    start: Time,
    stop: Option<Time>,
    key_log: KeyLog,
    /// Client and server, from `start` to `stop`.
    ends: Option<[End; 2]>,
    /// What the sender believed when it left.
    min_rtt: Option<Duration>,
    probe: Probe,
    /// The same for what the client sends, where both ends send.
    reverse_probe: Option<Probe>,
    /// What makes the frames of a live source.
    media: Option<MediaSource>,
    /// The applications of a call.
    call: Option<CallRun>,
    /// The applications of a source of frames with a stream for each.
    frames: Option<FramesRun>,
    /// The ends of an application protocol.
    applications: Option<Applications<'a>>,
    /// When they next have something to do by themselves.
    call_at: Option<Time>,
    completed: Option<Time>,
}

/// One end, and the packet that it paces.
struct End {
    peer: Box<dyn Peer>,
    /// The direction that it sends in.
    direction: Direction,
    /// Written and not to leave before its time.
    held: Option<(Time, Vec<u8>, Ecn)>,
    timeout: Option<Time>,
    /// Something happened to it: it may have something to send.
    touched: bool,
    /// Where its machine has other work.
    busy: Option<BusyProcess>,
}

/// Tells the seeds of late ends from those of stacks.
const BUSY_SEED: u64 = 0x6c61_7465;

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Whether both ends send data.
fn has_two_ways(flow: &Flow) -> bool {
    matches!(flow.load, Load::TwoWay | Load::Applications)
}

impl World<'_> {
    fn run(&mut self) -> Result<(), Error> {
        let end = Time::from(self.scenario.duration);
        let mut rounds = 0;
        while !self.flows.iter().all(|flow| flow.is_done(self.now)) {
            let Some(next) = self.next_event() else { break };
            if next > end {
                break;
            }
            rounds = if next > self.now { 0 } else { rounds + 1 };
            if rounds > PATIENCE {
                return Err(Error::Stuck { at: self.now });
            }
            self.now = self.now.max(next);
            self.clock.set(self.now.since(Time::ZERO));
            self.deliver()?;
            for index in 0..self.flows.len() {
                self.turn(index)?;
            }
        }
        if !self.flows.iter().all(|flow| flow.is_done(self.now)) {
            self.now = end;
        }
        Ok(())
    }

    /// Takes from the link what is still on its way when the run is over. No end reads it; it is only
    /// not lost.
    fn drain(&mut self) {
        let mut last = self.now;
        while self
            .flows
            .iter_mut()
            .any(|flow| flow.probes().any(|probe| probe.misses_packets()))
            && let Some(next) = self.link.next_event()
            && next.since(last) <= DRAINED_AFTER
        {
            while let Some(Arrival { direction, packet, .. }) = self.link.arrival(next) {
                let Some(flow) = self.flows.get_mut(packet.flow as usize) else { continue };
                flow.probes().for_each(|probe| probe.on_late_arrival(direction, &packet));
                last = next;
            }
        }
    }

    fn next_event(&self) -> Option<Time> {
        let flows = self.flows.iter().filter_map(|flow| flow.next_event(self.now));
        flows.chain(self.link.next_event()).min()
    }

    /// Takes from the link what has arrived: all that arrives at one time (an A-MPDU's packets
    /// do) is read before anything is answered, as from a socket. A receiver that counts
    /// packets strictly answers each.
    fn deliver(&mut self) -> Result<(), Error> {
        while let Some(Arrival { direction, packet, .. }) = self.link.arrival(self.now) {
            let Some(flow) = self.flows.get_mut(packet.flow as usize) else { continue };
            let of = (flow.index, direction);
            self.trace.note(Event::Arrived, of, (packet.size, &packet.bytes), self.now);
            flow.probes().for_each(|probe| probe.on_arrival(direction, &packet, self.now));
            let Some(ends) = &mut flow.ends else { continue };
            let (end, config) = match direction {
                Direction::Forward => (&mut ends[CLIENT], &flow.flow.client),
                Direction::Reverse => (&mut ends[SERVER], &flow.flow.server),
            };
            let (mut bytes, ecn) = (packet.bytes, packet.ecn);
            if let Some(process) = &mut end.busy {
                process.on_datagram(bytes, ecn, self.now);
                continue;
            }
            end.peer.receive(&mut bytes, ecn, Duration::ZERO);
            end.touched = true;
            if config.counts_strictly() {
                self.turn(packet.flow as usize)?;
            }
        }
        Ok(())
    }

    /// Lets a flow's ends do what is due.
    fn turn(&mut self, index: usize) -> Result<(), Error> {
        let Self { epoch, now, content, link, trace, .. } = self;
        let (now, epoch) = (*now, *epoch);
        let flow = &mut self.flows[index];
        if flow.is_stopped(now) {
            flow.leave();
        } else if flow.ends.is_none() && flow.start <= now {
            flow.connect()?;
        }
        let fresh_bytes = flow.available(now);
        let call_is_due = flow.call_at.is_some_and(|at| at <= now);
        let Some(mut ends) = flow.ends.take() else { return Ok(()) };
        for (which, end) in ends.iter_mut().enumerate() {
            let fresh = call_is_due
                || which == SERVER && matches!(flow.flow.load, Load::Rate(_) | Load::Media(_));
            if !end.takes_its_turn(now, fresh) {
                continue;
            }
            flow.run_applications(
                which,
                end.peer.as_mut(),
                content,
                (now, epoch),
                fresh_bytes,
            )?;
            let direction = end.direction;
            end.transmit(now, epoch, |bytes, ecn| {
                flow.probes().for_each(|probe| probe.on_sent(direction, &bytes, now));
                let size = (bytes.len() + HEADERS) as u32;
                trace.note(Event::Sent, (index, direction), (size, &bytes), now);
                let packet = Packet::new(size, index as u32, now, bytes).with_ecn(ecn);
                link.send(direction, packet, now);
            });
            end.touched = false;
            if which == SERVER
                && let Some(min_rtt) = end.peer.min_rtt()
            {
                flow.probe.on_min_rtt(min_rtt.as_secs_f64() * 1e3, now);
                flow.probe.on_rates(|| end.peer.rates(), now);
            }
            if let Some(reason) = end.peer.closed()
                && flow.completed.is_none()
            {
                return Err(Error::Closed { flow: index, at: now.as_secs_f64(), reason });
            }
        }
        flow.ends = Some(ends);
        flow.call_at = match &flow.frames {
            Some(frames) => frames.next_event(),
            None if flow.applications.is_some() => {
                flow.applications.as_ref().and_then(Applications::next_event)
            }
            None => flow.call.as_ref().and_then(|call| call.next_event(now)),
        };
        Ok(())
    }

    fn report(self) -> Result<ScenarioReport, Error> {
        let Self { now, flows, trace, .. } = self;
        trace.finish()?;
        let flows = flows.into_iter().map(|flow| flow.report(now));
        Ok(ScenarioReport { flows: flows.collect::<Result<_, _>>()? })
    }
}

impl<'a> Running<'a> {
    fn new(index: usize, flow: &'a Flow, scenario: &Scenario, seed: u64) -> Self {
        let start = Time::from(flow.start);
        let end = Time::from(scenario.duration);
        let from = start + scenario.warm_up;
        let stop = match flow.load {
            Load::Bulk { stop } => stop.map(|stop| start + stop),
            Load::TwoWay
            | Load::Bytes(_)
            | Load::Rate(_)
            | Load::Media(_)
            | Load::Call(_)
            | Load::Frames(_)
            | Load::Applications => None,
        };
        let to = stop.map_or(end, |stop| end.min(stop));
        let media = match flow.load {
            Load::Media(media) => Some(MediaSource::new(media, start)),
            _ => None,
        };
        let call = match flow.load {
            Load::Call(call) => Some(CallRun::new(call)),
            _ => None,
        };
        let frames = match flow.load {
            Load::Frames(frames) => Some(FramesRun::new(frames)),
            _ => None,
        };
        let key_log = KeyLog::new();
        let probe = |direction| {
            let bin = scenario.bin.as_nanos() as u64;
            let way = (&scenario.link, &flow.path, direction);
            Probe::new(&key_log, way, (from.min(to), to, end), bin)
        };
        Self {
            index,
            flow,
            seed,
            start,
            probe: probe(Direction::Forward),
            reverse_probe: has_two_ways(flow).then(|| probe(Direction::Reverse)),
            key_log,
            ends: None,
            stop,
            min_rtt: None,
            media,
            call,
            frames,
            applications: None,
            call_at: None,
            completed: None,
        }
    }

    fn connect(&mut self) -> Result<(), Error> {
        let (flow, key_log) = (self.flow, &self.key_log);
        let mut seeds = Pcg64Mcg::seed_from_u64(self.seed);
        let client: Box<dyn Peer> = match flow.client.stack {
            Stack::Quinn => Box::new(quinn::client(flow, &mut seeds, key_log)?),
            Stack::Tack | Stack::Plain => quiche::client(flow, &mut seeds, key_log)?,
        };
        let server: Box<dyn Peer> = match flow.server.stack {
            Stack::Quinn => Box::new(quinn::server(flow, &mut seeds, key_log)?),
            Stack::Tack | Stack::Plain => quiche::server(flow, &mut seeds, key_log)?,
        };
        let [of_client, of_server] = self.busy_processes();
        self.ends = Some([
            End::new(client, Direction::Reverse, of_client),
            End::new(server, Direction::Forward, of_server),
        ]);
        Ok(())
    }

    /// What makes the ends late, client and server. The delays depend on the seed alone: each end has a
    /// generator of its own, which no stack draws from.
    fn busy_processes(&self) -> [Option<BusyProcess>; 2] {
        let mut seeds = Pcg64Mcg::seed_from_u64(self.seed ^ BUSY_SEED);
        [&self.flow.client, &self.flow.server].map(|end: &EndConfig| {
            BusyProcess::new(end.busy, Pcg64Mcg::seed_from_u64(seeds.next_u64()))
        })
    }

    /// Lets the application at one end read and write; `available` bytes are there to send, and these are all
    /// if `last`.
    fn run_applications(
        &mut self,
        which: usize,
        peer: &mut dyn Peer,
        content: &Content,
        (now, epoch): (Time, Instant),
        (available, last): (u64, bool),
    ) -> Result<(), Error> {
        let index = self.index;
        let two_way = self.flow.load == Load::TwoWay;
        let mismatch = |offset| Error::Content { flow: index, offset };
        if let Some(applications) = &mut self.applications {
            applications.turn(which, peer, now).map_err(|error| Error::Application {
                flow: index,
                at: now.as_secs_f64(),
                error,
            })?;
            if applications.is_finished() {
                self.completed.get_or_insert(now);
            }
            return Ok(());
        }
        if let Some(call) = &mut self.call {
            if which == SERVER {
                call.supply(peer, content, now);
                return Ok(());
            }
            return call.consume(peer, content, now).map_err(mismatch);
        }
        if let Some(frames) = &mut self.frames {
            if which == CLIENT {
                return frames.consume(peer, content, now).map_err(mismatch);
            }
            frames.supply(peer, content, now, epoch);
            for (stream, at) in frames.take_deadlines() {
                self.probe.set_deadline(quiche::server_stream(stream), at);
            }
            return Ok(());
        }
        if which == CLIENT || two_way {
            let consumed = peer.consume(content).map_err(mismatch)?;
            if consumed.finished {
                self.completed.get_or_insert(now);
            }
        }
        if which == SERVER || two_way {
            peer.supply(content, available, last);
        }
        Ok(())
    }

    /// What watches this flow.
    fn probes(&mut self) -> impl Iterator<Item = &mut Probe> {
        std::iter::once(&mut self.probe).chain(&mut self.reverse_probe)
    }

    /// How many bytes the sending application has produced, and whether these are all.
    fn available(&mut self, now: Time) -> (u64, bool) {
        if let Some(media) = &mut self.media {
            return (media.handed(now, self.probe.sent_until()), false);
        }
        let age = now.since(self.start);
        match self.flow.load {
            // quiche and quinn take what their windows allow.
            Load::Bulk { .. } | Load::TwoWay => (u64::MAX, false),
            Load::Bytes(bytes) => (bytes, true),
            Load::Media(_) | Load::Call(_) | Load::Frames(_) | Load::Applications => (0, false),
            Load::Rate(bps) => {
                let frames = (age.as_secs_f64() / self.frame_interval(bps)) as u64;
                (frames * self.flow.udp_payload as u64, false)
            }
        }
    }

    /// Seconds from one frame of a source to the next. A frame is worth a packet.
    fn frame_interval(&self, bps: f64) -> f64 {
        self.flow.udp_payload as f64 * 8.0 / bps
    }

    /// Whether nothing more will happen.
    fn is_done(&self, now: Time) -> bool {
        self.completed.is_some() || self.is_stopped(now)
    }

    /// Whether the time of a flow with an end is over.
    fn is_stopped(&self, now: Time) -> bool {
        self.stop.is_some_and(|stop| stop <= now)
    }

    /// Both ends fall silent at once, whatever they have buffered: quinn holds 64 MiB.
    fn leave(&mut self) {
        if let Some([_, server]) = self.ends.take() {
            self.min_rtt = server.peer.min_rtt();
        }
    }

    fn next_event(&self, now: Time) -> Option<Time> {
        let Some(ends) = &self.ends else {
            return Some(self.start).filter(|_| !self.is_stopped(now));
        };
        let ends = ends.iter().filter_map(|end| end.next_event(now));
        ends.chain(self.next_load(now)).min()
    }

    /// When the application next has something to say.
    fn next_load(&self, now: Time) -> Option<Time> {
        match self.flow.load {
            Load::Bulk { .. } => self.stop.filter(|stop| *stop > now),
            Load::Rate(bps) => {
                // A packet's worth at a time.
                let step = self.flow.udp_payload as f64 * 8.0 / bps;
                let age = now.since(self.start).as_secs_f64();
                let next = ((age / step).floor() + 1.0) * step;
                Some(
                    (self.start + Duration::from_secs_f64(next))
                        .max(now + Duration::from_nanos(1)),
                )
            }
            Load::Media(_) => self.media.as_ref().map(MediaSource::next_frame),
            Load::Call(_) | Load::Frames(_) | Load::Applications => self.call_at,
            Load::Bytes(_) | Load::TwoWay => None,
        }
    }

    fn report(self, now: Time) -> Result<FlowReport, Error> {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let min_rtt = |which: usize| match &self.ends {
            Some(ends) => ends[which].peer.min_rtt(),
            None => self.min_rtt.filter(|_| which == SERVER),
        };
        let [of_client, of_server] = [CLIENT, SERVER].map(|which| min_rtt(which).map(ms));
        let end = self.completed.unwrap_or(now);
        let reverse = self
            .reverse_probe
            .map(|probe| FlowReport { min_rtt_ms: of_client, ..probe.report(end) });
        let ecn =
            self.ends.as_ref().and_then(|ends| ends[SERVER].peer.ecn_marked_and_reported());
        Ok(FlowReport {
            min_rtt_ms: of_server,
            careful_resume: self
                .ends
                .as_ref()
                .and_then(|ends| ends[SERVER].peer.careful_resume()),
            ecn_marked: ecn.map(|(marked, _)| marked),
            ce_reported: ecn.map(|(_, reported)| reported),
            completion_ms: self.completed.map(|at| ms(at.since(self.start))),
            reverse: reverse.map(Box::new),
            delivered_frames: self.frames.map(|frames| frames.report(end)).transpose()?,
            frames: self.call.map(|call| call.report(end)).transpose()?,
            ..self.probe.report(end)
        })
    }
}

impl End {
    fn new(peer: Box<dyn Peer>, direction: Direction, busy: Option<BusyProcess>) -> Self {
        Self { peer, direction, held: None, timeout: None, touched: true, busy }
    }

    /// Whether something is to be done now; `fresh` if its application may have data. Expired timers
    /// have been told then, and what waited in a busy process's socket has been read.
    fn takes_its_turn(&mut self, now: Time, fresh: bool) -> bool {
        let expired = self.timeout.is_some_and(|at| at <= now);
        let released = self.held.as_ref().is_some_and(|(at, ..)| *at <= now);
        let is_due = self.touched || expired || released || fresh;
        if let Some(process) = &mut self.busy {
            if is_due {
                process.wake(now);
            }
            let Some(datagrams) = process.run(now) else { return false };
            for mut datagram in datagrams {
                let waited = now.since(datagram.at);
                self.peer.receive(&mut datagram.bytes, datagram.ecn, waited);
            }
        } else if !is_due {
            return false;
        }
        if expired {
            self.peer.on_timeout();
        }
        true
    }

    /// When it next has something to do by itself.
    fn next_event(&self, now: Time) -> Option<Time> {
        if let Some(at) = self.busy.as_ref().and_then(BusyProcess::runs_at) {
            return Some(at);
        }
        let held = self.held.as_ref().map(|(at, ..)| *at);
        [held, self.timeout, self.touched.then_some(now)].into_iter().flatten().min()
    }

    /// Sends what may leave now; a packet that is to leave later is held, and nothing is
    /// written behind it.
    fn transmit(&mut self, now: Time, epoch: Instant, mut send: impl FnMut(Vec<u8>, Ecn)) {
        if let Some((at, datagram, ecn)) = self.held.take() {
            if at > now {
                self.held = Some((at, datagram, ecn));
            } else {
                send(datagram, ecn);
            }
        }
        while self.held.is_none() {
            let mut datagram = Vec::new();
            let Some((at, ecn)) = self.peer.transmit(&mut datagram) else { break };
            let at = Time::from(at.saturating_duration_since(epoch));
            if at > now {
                self.held = Some((at, datagram, ecn));
            } else {
                send(datagram, ecn);
            }
        }
        let timeout = self.peer.timeout();
        self.timeout = timeout.map(|at| Time::from(at.saturating_duration_since(epoch)));
    }
}

#[cfg(test)]
mod tests {
    use tack_link::{LinkSpec, PathSpec};

    use super::*;

    #[test]
    fn how_late_the_ends_are_depends_on_the_seed_and_not_on_the_stack() {
        let late = |stack: Stack, seed| {
            let flow = Flow::new(
                stack,
                stack.own_acks(),
                stack.own_congestion(),
                PathSpec::with_rtt(Duration::from_millis(10)),
            );
            let scenario = Scenario {
                link: LinkSpec::resolve("pipe:10").unwrap(),
                flows: vec![flow.with_busy_ends(Duration::from_millis(5))],
                duration: Duration::from_secs(1),
                warm_up: Duration::ZERO,
                bin: Duration::from_secs(1),
                seed,
            };
            Identity::get().unwrap();
            let _clock = Virtual::enter(seed);
            let mut running = Running::new(0, &scenario.flows[0], &scenario, seed);
            running.connect().unwrap();
            running.ends.unwrap().map(|mut end| {
                let process = end.busy.as_mut().unwrap();
                process.wake(Time::ZERO);
                process.runs_at()
            })
        };
        let [client, server] = late(Stack::Tack, 1);
        assert_ne!(client, server);
        for stack in [Stack::Plain, Stack::Quinn] {
            assert_eq!(late(stack, 1), [client, server], "{stack:?}");
            assert_ne!(late(stack, 2), [client, server], "{stack:?}");
        }
    }
}
