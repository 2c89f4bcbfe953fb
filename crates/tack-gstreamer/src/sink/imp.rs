//! The element itself: properties, states, and what the pad receives.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_base::prelude::*;
use gst_base::subclass::prelude::*;
use tack_media::{FrameKind, RateControlConfig};

use super::capture_time::CaptureTime;
use super::outgoing::OutgoingBuffer;
use super::shared::{Shared, State};
use super::stats;
use super::worker::{self, PATIENCE, SendSettings, Worker};
use crate::CAT;
use crate::error::Error;
use crate::payload::BufferMeta;
use crate::settings::{self, Mode, Settings};
use crate::transport::Direction;

const DEFAULT_DEADLINE_MS: u32 = 200;
/// A deadline of an hour is none; longer ones would keep frames that are of no use.
const MAX_DEADLINE_MS: u32 = 3_600_000;

/// The values of the properties.
#[derive(Clone, Debug)]
struct SinkSettings {
    link: Settings,
    deadline_ms: u32,
    min_bitrate: u32,
    max_bitrate: u32,
    waits_for_connection: bool,
}

impl Default for SinkSettings {
    fn default() -> Self {
        let control = RateControlConfig::default();
        Self {
            link: Settings::default(),
            deadline_ms: DEFAULT_DEADLINE_MS,
            min_bitrate: control.lowest as u32,
            max_bitrate: control.highest as u32,
            waits_for_connection: true,
        }
    }
}

/// What is there between start and stop.
struct Running {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// What the streaming thread knows of the stream.
#[derive(Default)]
struct Stream {
    capture: CaptureTime,
    caps: Option<Arc<str>>,
    caps_number: u64,
    /// The name of the caps.
    format: String,
    /// The next buffer needs none before it, whatever its flags say.
    begins_key_unit: bool,
    /// Each buffer is sound that needs no other.
    is_sound: bool,
    /// A buffer has been let through since the start, or since the stream began anew.
    has_begun: bool,
}

/// The element `tacksink`.
#[derive(Default)]
pub struct TackSink {
    settings: Mutex<SinkSettings>,
    running: Mutex<Option<Running>>,
    /// The statistics when it was stopped last.
    last_stats: Mutex<Option<gst::Structure>>,
    stream: Mutex<Stream>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TackSink {
    fn shared(&self) -> Option<Arc<Shared>> {
        lock(&self.running).as_ref().map(|running| Arc::clone(&running.shared))
    }

    fn send_settings(&self) -> SendSettings {
        let settings = lock(&self.settings).clone();
        let mut control = RateControlConfig::default();
        control.lowest = u64::from(settings.min_bitrate);
        control.highest = u64::from(settings.max_bitrate);
        let deadline = Duration::from_millis(u64::from(settings.deadline_ms));
        SendSettings { link: settings.link, deadline, control }
    }

    /// Whether what comes upstream is captured now, and does not wait for this element.
    fn is_live(&self) -> bool {
        let mut query = gst::query::Latency::new();
        self.obj().sink_pad().peer_query(&mut query) && query.result().0
    }

    /// The times of a buffer as running times, nanoseconds.
    fn running_times(&self, buffer: &gst::BufferRef) -> (Option<i64>, Option<i64>) {
        let segment = self.obj().segment();
        let Some(segment) = segment.downcast_ref::<gst::ClockTime>() else {
            return (None, None);
        };
        let running = |time: Option<gst::ClockTime>| {
            let signed = segment.to_running_time_full(time?)?;
            let nanos = i64::try_from(signed.abs().nseconds()).ok()?;
            Some(if signed.is_negative() { -nanos } else { nanos })
        };
        (running(buffer.pts()), running(buffer.dts()))
    }

    /// Waits for the end to be told, so long as the frames that are on their way may take. An error if a flush or a stop
    /// takes the end back.
    fn drain(&self, pad: &gst::Pad) -> Result<(), gst::FlowError> {
        let Some(shared) = self.shared() else { return Ok(()) };
        shared.update(State::end);
        shared.waker.wake();
        let deadline = lock(&self.settings).deadline_ms;
        let longest = Duration::from_millis(u64::from(deadline)) + 2 * PATIENCE;
        if !self.wait(pad, Some(Instant::now() + longest), |state| state.is_drained)? {
            gst::warning!(CAT, imp = self, "the end was not delivered to each receiver");
        }
        Ok(())
    }

    /// The pipeline was flushed: times begin anew, and behind an end so does the stream.
    fn restart(&self) {
        let shared = self.shared();
        let begins = shared.is_some_and(|shared| {
            let begins = shared.update(State::restart);
            shared.waker.wake();
            begins
        });
        let mut stream = lock(&self.stream);
        stream.capture = CaptureTime::default();
        // A receiver is waited for as at the start.
        stream.has_begun &= !begins;
    }

    /// Opens the endpoint in a thread of its own.
    fn open(&self) -> Result<(), gst::ErrorMessage> {
        let settings = self.send_settings();
        let mode = settings.link.mode;
        let shared = Arc::new(Shared::default());
        *lock(&self.stream) = Stream::default();
        let element = self.obj().downgrade();
        let (opened, is_open) = std::sync::mpsc::sync_channel::<Result<(), Error>>(1);
        let run = {
            let (shared, element) = (Arc::clone(&shared), element);
            move || {
                let worker = Worker::open(settings, Arc::clone(&shared), element.clone());
                // It is stopped, or has been started again with a thread of its own.
                if shared.lock().stops {
                    return;
                }
                match worker {
                    Ok(worker) => {
                        // Nobody listens if this is a caller.
                        let _ = opened.try_send(Ok(()));
                        worker.run();
                    }
                    Err(error) => {
                        let is_told = mode == Mode::Listener
                            && opened.try_send(Err(error.clone())).is_ok();
                        if !is_told && let Some(element) = element.upgrade() {
                            crate::error::post(element.imp(), &error, Direction::Send);
                        }
                        shared.update(|state| state.has_failed = true);
                    }
                }
            }
        };
        let thread =
            thread::Builder::new().name("tacksink".to_owned()).spawn(run).map_err(|e| {
                gst::error_msg!(gst::ResourceError::Failed, ["cannot start a thread: {e}"])
            })?;
        if mode == Mode::Listener
            && let Ok(Err(error)) = is_open.recv()
        {
            return Err(error.message(Direction::Send));
        }
        *lock(&self.running) = Some(Running { shared, thread });
        if mode == Mode::Listener {
            self.obj().notify("current-port");
            self.obj().notify("current-fingerprint");
        }
        Ok(())
    }

    /// Ends the thread.
    fn close(&self) {
        let running = lock(&self.running).take();
        let Some(Running { shared, thread }) = running else { return };
        shared.update(|state| state.stops = true);
        // A thread that still looks for an address ends by itself when it has one, and this may be that thread.
        if shared.waker.wake() && thread.thread().id() != thread::current().id() {
            // It has told of what went wrong.
            let _ = thread.join();
        }
        *lock(&self.last_stats) = Some(stats::structure(&shared.lock()));
    }

    /// Waits for a receiver before the first buffer, unless the pipeline is live or need not.
    fn begin(&self, pad: &gst::Pad) -> Result<(), gst::FlowError> {
        if lock(&self.stream).has_begun {
            return Ok(());
        }
        let waits = lock(&self.settings).waits_for_connection;
        if waits && !self.is_live() {
            gst::info!(CAT, imp = self, "waiting for a receiver");
            if !self.wait(pad, None, |state| state.has_peer)? {
                return Err(gst::FlowError::Error);
            }
        }
        lock(&self.stream).has_begun = true;
        Ok(())
    }

    /// Waits until it is so, through pauses; false if it is not in time, or the element's thread has failed. An error on a
    /// flush and when the element stops.
    ///
    /// To be called from a probe only, in front of the pad's functions, which hold the preroll lock. A change to PLAYING
    /// takes that lock and does not call `unlock` before.
    fn wait(
        &self,
        pad: &gst::Pad,
        until: Option<Instant>,
        is: impl Fn(&State) -> bool,
    ) -> Result<bool, gst::FlowError> {
        let Some(shared) = self.shared() else { return Err(gst::FlowError::Flushing) };
        loop {
            // Counted before the flag is read, which is set before the call of `unlock`: no flush is missed. The flag
            // stays until the thread that flushes has had the stream lock, which is held here.
            let unlocks = shared.lock().unlocks;
            if pad.pad_flags().contains(gst::PadFlags::FLUSHING) {
                return Err(gst::FlowError::Flushing);
            }
            if shared.wait(until, unlocks, &is) {
                return Ok(true);
            }
            // A pause changes nothing.
            if shared.lock().unlocks == unlocks {
                return Ok(false);
            }
        }
    }

    /// What waits for the network does so before the pad's functions are called. What is flushed meanwhile goes no further.
    fn on_data(&self, pad: &gst::Pad, info: &mut gst::PadProbeInfo<'_>) -> gst::PadProbeReturn {
        let result = match &info.data {
            Some(gst::PadProbeData::Buffer(_) | gst::PadProbeData::BufferList(_)) => {
                self.begin(pad)
            }
            Some(gst::PadProbeData::Event(event)) if event.type_() == gst::EventType::Eos => {
                self.drain(pad)
            }
            _ => Ok(()),
        };
        if let Err(error) = result {
            info.flow_res = Err(error);
            // Not `Drop`: the binding and the pad would both release an event.
            return gst::PadProbeReturn::Handled;
        }
        gst::PadProbeReturn::Ok
    }

    fn outgoing(&self, buffer: &gst::Buffer) -> Result<OutgoingBuffer, gst::FlowError> {
        let now = Instant::now();
        let deadline = Duration::from_millis(u64::from(lock(&self.settings).deadline_ms));
        let (pts, dts) = self.running_times(buffer);
        let mut stream = lock(&self.stream);
        let Some(caps) = stream.caps.clone() else {
            gst::element_imp_error!(
                self,
                gst::StreamError::Format,
                [
                    "the stream has no caps, without which no receiver can read it: put a parser or a demuxer in front"
                ]
            );
            return Err(gst::FlowError::NotNegotiated);
        };
        let meta = BufferMeta {
            pts,
            dts,
            duration: buffer.duration().map(gst::ClockTime::nseconds),
            flags: buffer.flags(),
            caps_number: stream.caps_number,
        };
        let captured_at = meta.decode_time().map_or(now, |time| {
            let captured = stream.capture.of(now, time, deadline);
            if let Some(by) = captured.jumped {
                gst::warning!(
                    CAT,
                    imp = self,
                    "the clock or the times jump by {by:.1?}; going on from now"
                );
            }
            captured.at
        });
        // A container of sound has buffers that need the ones before.
        let begins_key_unit = std::mem::take(&mut stream.begins_key_unit);
        let is_delta =
            buffer.flags().contains(gst::BufferFlags::DELTA_UNIT) && !begins_key_unit;
        stream.is_sound &= !is_delta;
        let kind = if is_delta {
            FrameKind::Delta
        } else if stream.is_sound {
            FrameKind::Audio
        } else {
            FrameKind::Key
        };
        let data = buffer.clone().into_mapped_buffer_readable().map_err(|_| {
            gst::element_imp_error!(self, gst::ResourceError::Read, ["cannot map a buffer"]);
            gst::FlowError::Error
        })?;
        Ok(OutgoingBuffer { kind, captured_at, meta, caps, data })
    }
}

#[glib::object_subclass]
impl ObjectSubclass for TackSink {
    const NAME: &'static str = "GstTackSink";
    type Type = super::TackSink;
    type ParentType = gst_base::BaseSink;
}

impl ObjectImpl for TackSink {
    fn constructed(&self) {
        self.parent_constructed();
        let element = self.obj().downgrade();
        let data = gst::PadProbeType::BUFFER
            | gst::PadProbeType::BUFFER_LIST
            | gst::PadProbeType::EVENT_DOWNSTREAM;
        self.obj().sink_pad().add_probe(data, move |pad, info| {
            element
                .upgrade()
                .map_or(gst::PadProbeReturn::Ok, |element| element.imp().on_data(pad, info))
        });
    }

    fn properties() -> &'static [glib::ParamSpec] {
        static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
            let mut properties = settings::properties();
            properties.extend(own_properties());
            properties
        });
        &PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, pspec: &glib::ParamSpec) {
        let mut settings = lock(&self.settings);
        match pspec.name() {
            "deadline" => settings.deadline_ms = value.get().unwrap_or(DEFAULT_DEADLINE_MS),
            "min-bitrate" => settings.min_bitrate = value.get().unwrap_or_default(),
            "max-bitrate" => settings.max_bitrate = value.get().unwrap_or(u32::MAX),
            "wait-for-connection" => {
                settings.waits_for_connection = value.get().unwrap_or(true);
            }
            name => {
                settings.link.set(name, value);
            }
        }
    }

    fn property(&self, _id: usize, pspec: &glib::ParamSpec) -> glib::Value {
        let settings = lock(&self.settings).clone();
        let shared = self.shared();
        let state = shared.as_ref().map(|shared| shared.lock());
        let state = state.as_deref();
        let bitrate = || -> u32 {
            let control = RateControlConfig::default().first;
            let rate = state.and_then(|state| state.estimated_bitrate).unwrap_or(control);
            u32::try_from(rate).unwrap_or(u32::MAX)
        };
        match pspec.name() {
            "deadline" => settings.deadline_ms.to_value(),
            "min-bitrate" => settings.min_bitrate.to_value(),
            "max-bitrate" => settings.max_bitrate.to_value(),
            "wait-for-connection" => settings.waits_for_connection.to_value(),
            "estimated-bitrate" => bitrate().to_value(),
            "estimated-bitrate-kbit" => (bitrate() / 1000).to_value(),
            "current-port" => {
                let port = state.and_then(|state| state.current_port);
                u32::from(port.unwrap_or(0)).to_value()
            }
            "current-fingerprint" => {
                state.and_then(|state| state.fingerprint.clone()).to_value()
            }
            "stats" => {
                let last = || lock(&self.last_stats).clone();
                state.map(stats::structure).or_else(last).to_value()
            }
            name => settings.link.get(name).unwrap_or_else(|| pspec.default_value().clone()),
        }
    }
}

fn own_properties() -> Vec<glib::ParamSpec> {
    let bitrate = |name: &'static str| {
        glib::ParamSpecUInt::builder(name).nick(name).minimum(1).maximum(u32::MAX)
    };
    let control = RateControlConfig::default();
    vec![
        glib::ParamSpecUInt::builder("deadline")
            .nick("Deadline")
            .blurb("How long after its capture a buffer is worth something, milliseconds: later it is neither sent nor repeated")
            .minimum(1)
            .maximum(MAX_DEADLINE_MS)
            .default_value(DEFAULT_DEADLINE_MS)
            .mutable_ready()
            .build(),
        glib::ParamSpecBoolean::builder("wait-for-connection")
            .nick("Wait for connection")
            .blurb("Whether a pipeline that is not live prerolls only when a receiver is there")
            .default_value(true)
            .mutable_ready()
            .build(),
        bitrate("min-bitrate")
            .blurb("The lowest estimated-bitrate, bits per second")
            .default_value(control.lowest as u32)
            .mutable_ready()
            .build(),
        bitrate("max-bitrate")
            .blurb("The highest estimated-bitrate, bits per second")
            .default_value(control.highest as u32)
            .mutable_ready()
            .build(),
        bitrate("estimated-bitrate")
            .blurb("What an encoder may produce, bits per second; notifies of changes")
            .default_value(control.first as u32)
            .read_only()
            .build(),
        bitrate("estimated-bitrate-kbit")
            .blurb("The same in kbit/s, to be bound to the property bitrate of x264enc")
            .default_value((control.first / 1000) as u32)
            .read_only()
            .build(),
        glib::ParamSpecBoxed::builder::<gst::Structure>("stats")
            .nick("Statistics")
            .blurb("Buffers by what became of them, and of each receiver rates, round trips and TACKs")
            .read_only()
            .build(),
    ]
}

impl GstObjectImpl for TackSink {}

impl ElementImpl for TackSink {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "TACK sink",
                "Sink/Network",
                "Sends live media over QUIC with TACK, as frames with deadlines",
                "tacklib",
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
            let any = gst::Caps::new_any();
            let (sink, always) = (gst::PadDirection::Sink, gst::PadPresence::Always);
            gst::PadTemplate::new("sink", sink, always, &any).into_iter().collect()
        });
        &TEMPLATES
    }

    /// The network is used from PAUSED on; a `GstBaseSink` would start in READY, before the properties are settled.
    fn change_state(
        &self,
        transition: gst::StateChange,
    ) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
        if transition == gst::StateChange::ReadyToPaused {
            self.open().map_err(|message| {
                self.post_error_message(message);
                gst::StateChangeError
            })?;
        }
        if transition == gst::StateChange::PausedToPlaying {
            // Running times stand still in a pause, and instants do not.
            lock(&self.stream).capture = CaptureTime::default();
        }
        let result = self.parent_change_state(transition);
        let has_failed = result.is_err() && transition == gst::StateChange::ReadyToPaused;
        if has_failed || transition == gst::StateChange::PausedToReady {
            self.close();
        }
        result
    }
}

impl BaseSinkImpl for TackSink {
    fn set_caps(&self, caps: &gst::Caps) -> Result<(), gst::LoggableError> {
        let name = caps.structure(0).map(|one| one.name().as_str()).unwrap_or_default();
        let text = worker::caps_text(caps).map_err(|why| {
            gst::element_imp_error!(
                self,
                gst::StreamError::Format,
                ["the caps of {name} {why} and cannot be sent"]
            );
            gst::loggable_error!(CAT, "the caps {why}: {caps}")
        })?;
        let mut stream = lock(&self.stream);
        if stream.caps.as_ref() != Some(&text) {
            gst::info!(CAT, imp = self, "caps: {caps}");
            stream.caps_number += 1;
        }
        // Other caps of the same format do not make its buffers independent.
        if stream.format != name {
            name.clone_into(&mut stream.format);
            stream.is_sound = name.starts_with("audio/");
        }
        stream.caps = Some(text);
        Ok(())
    }

    fn render(&self, buffer: &gst::Buffer) -> Result<gst::FlowSuccess, gst::FlowError> {
        let Some(shared) = self.shared() else { return Err(gst::FlowError::Flushing) };
        if shared.lock().has_failed {
            return Err(gst::FlowError::Error);
        }
        if !shared.push(self.outgoing(buffer)?) {
            gst::warning!(
                CAT,
                imp = self,
                "the element's thread takes no buffers; dropping this one"
            );
        }
        Ok(gst::FlowSuccess::Ok)
    }

    fn event(&self, event: gst::Event) -> bool {
        if event.type_() == gst::EventType::FlushStop {
            self.restart();
        }
        // matroskamux begins a cluster then, and takes its first buffer for a delta unit.
        if gst_video::DownstreamForceKeyUnitEvent::parse(&event).is_ok() {
            lock(&self.stream).begins_key_unit = true;
        }
        self.parent_event(event)
    }

    fn unlock(&self) -> Result<(), gst::ErrorMessage> {
        if let Some(shared) = self.shared() {
            shared.update(|state| state.unlocks += 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::mpsc::Receiver;

    use super::*;
    use crate::settings::resolve_slowly;

    #[test]
    fn a_host_that_is_not_found_is_no_error_of_an_element_that_was_started_again() {
        gst::init().unwrap();
        let pipeline = gst::Pipeline::new();
        let element: crate::TackSink = glib::Object::new();
        let source = gst::ElementFactory::make("appsrc").build().unwrap();
        pipeline.add(&source).unwrap();
        pipeline.add(&element).unwrap();
        source.link(&element).unwrap();
        lock(&element.imp().settings).link.resolve = resolve_slowly;
        pipeline.set_state(gst::State::Paused).unwrap();
        pipeline.set_state(gst::State::Null).unwrap();
        lock(&element.imp().settings).link = Settings::default();
        element.set_property("mode", Mode::Listener);
        element.set_property("port", 0_u32);
        pipeline.set_state(gst::State::Paused).unwrap();
        thread::sleep(Duration::from_secs(1));
        let error = pipeline.bus().unwrap().pop_filtered(&[gst::MessageType::Error]);
        pipeline.set_state(gst::State::Null).unwrap();
        assert!(error.is_none(), "{error:?}");
    }

    /// A sink that need not preroll behind a source. Neither runs yet.
    fn pipeline(source: &gst_app::AppSrc) -> (gst::Pipeline, crate::TackSink) {
        gst::init().unwrap();
        let pipeline = gst::Pipeline::new();
        let element: crate::TackSink = glib::Object::new();
        element.set_property("async", false);
        element.set_property("sync", false);
        pipeline.add(source).unwrap();
        pipeline.add(&element).unwrap();
        source.link(&element).unwrap();
        (pipeline, element)
    }

    /// Such a sink that calls a receiver that never answers: the end cannot be told.
    fn unanswered() -> (UdpSocket, gst_app::AppSrc, gst::Pipeline, crate::TackSink) {
        gst::init().unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let caps = gst::Caps::new_empty_simple("video/x-test");
        let source = gst_app::AppSrc::builder().format(gst::Format::Time).caps(&caps).build();
        let (pipeline, element) = pipeline(&source);
        element.set_property("port", u32::from(socket.local_addr().unwrap().port()));
        element.set_property("insecure", true);
        element.set_property("wait-for-connection", false);
        element.set_property("deadline", MAX_DEADLINE_MS);
        (socket, source, pipeline, element)
    }

    /// Ends the stream, and returns while the sink waits for the end to be told.
    fn begin_to_end(source: &gst_app::AppSrc, element: &crate::TackSink) {
        source.end_of_stream().unwrap();
        let shared = element.imp().shared().unwrap();
        while !shared.lock().is_ended {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Changes to PLAYING in a thread of its own, which tells when that is done.
    fn play(pipeline: &gst::Pipeline) -> Receiver<Result<(), gst::StateChangeError>> {
        let (tell, told) = std::sync::mpsc::channel();
        let pipeline = pipeline.clone();
        thread::spawn(move || tell.send(pipeline.set_state(gst::State::Playing).map(|_| ())));
        told
    }

    #[test]
    fn a_first_buffer_that_comes_within_the_change_to_playing_does_not_hold_it_up() {
        gst::init().unwrap();
        // Without caps, whose event would need the lock below.
        let source = gst_app::AppSrc::builder().format(gst::Format::Time).build();
        let (pipeline, element) = pipeline(&source);
        element.set_property("mode", Mode::Listener);
        element.set_property("port", 0_u32);
        pipeline.set_state(gst::State::Paused).unwrap();
        // The change waits for this lock, between the base class's note of it and the preroll lock.
        let held = lock(&element.imp().stream);
        let told = play(&pipeline);
        thread::sleep(Duration::from_millis(200));
        source.push_buffer(gst::Buffer::from_slice([0; 8])).unwrap();
        thread::sleep(Duration::from_millis(200));
        drop(held);
        told.recv_timeout(Duration::from_secs(10)).expect("no deadlock").unwrap();
        pipeline.set_state(gst::State::Null).unwrap();
    }

    #[test]
    fn an_end_that_comes_in_a_pause_does_not_hold_up_the_change_to_playing() {
        let (_socket, source, pipeline, element) = unanswered();
        pipeline.set_state(gst::State::Paused).unwrap();
        begin_to_end(&source, &element);
        let told = play(&pipeline);
        // Before the call fails, which takes ten seconds.
        told.recv_timeout(Duration::from_secs(5)).expect("no deadlock").unwrap();
        pipeline.set_state(gst::State::Null).unwrap();
    }

    fn is_end_posted(pipeline: &gst::Pipeline) -> bool {
        let (bus, time) = (pipeline.bus().unwrap(), gst::ClockTime::from_mseconds(300));
        bus.timed_pop_filtered(time, &[gst::MessageType::Eos]).is_some()
    }

    #[test]
    fn a_pause_does_not_post_an_end_that_is_not_told_yet() {
        let (_socket, source, pipeline, element) = unanswered();
        pipeline.set_state(gst::State::Playing).unwrap();
        source.push_buffer(gst::Buffer::from_slice([0; 8])).unwrap();
        begin_to_end(&source, &element);
        pipeline.set_state(gst::State::Paused).unwrap();
        pipeline.set_state(gst::State::Playing).unwrap();
        assert!(!is_end_posted(&pipeline));
        pipeline.set_state(gst::State::Null).unwrap();
    }

    #[test]
    fn a_flush_takes_back_an_end_that_is_not_told_yet() {
        let (_socket, source, pipeline, element) = unanswered();
        pipeline.set_state(gst::State::Playing).unwrap();
        source.push_buffer(gst::Buffer::from_slice([0; 8])).unwrap();
        begin_to_end(&source, &element);
        assert!(source.send_event(gst::event::FlushStart::new()));
        assert!(source.send_event(gst::event::FlushStop::new(true)));
        assert!(!is_end_posted(&pipeline));
        assert_eq!(element.imp().shared().unwrap().lock().restarts, 1);
        pipeline.set_state(gst::State::Null).unwrap();
    }
}
