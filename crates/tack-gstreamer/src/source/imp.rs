//! The element itself: properties, states, and what the pad pushes.

use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_base::prelude::*;
use gst_base::subclass::base_src::CreateSuccess;
use gst_base::subclass::prelude::*;
use tack_media::FrameKind;

use super::output::{Next, Shared};
use super::session::Received;
use super::stats;
use super::stream_headers::StreamHeaders;
use super::timestamps::Timestamps;
use super::worker::{ReceiveSettings, Worker};
use crate::CAT;
use crate::error::Error;
use crate::settings::{self, Mode, Settings};
use crate::transport::Direction;

const DEFAULT_LATENCY_MS: u32 = 200;
const MAX_LATENCY_MS: u32 = 10_000;
/// How much older than the latency buffers may be when the element begins to play. A receiver whose start takes longer
/// would stay behind by that time for good.
const LONGEST_START: Duration = Duration::from_millis(500);

/// The values of the properties.
#[derive(Clone, Debug)]
struct SrcSettings {
    link: Settings,
    latency_ms: u32,
}

impl Default for SrcSettings {
    fn default() -> Self {
        Self { link: Settings::default(), latency_ms: DEFAULT_LATENCY_MS }
    }
}

/// What is there between start and stop.
struct Running {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// What the streaming thread hands on.
#[derive(Default)]
struct Stream {
    timestamps: Timestamps,
    headers: StreamHeaders,
    /// Headers, and the buffer behind them.
    next: VecDeque<gst::Buffer>,
}

/// The element `tacksrc`.
#[derive(Default)]
pub struct TackSrc {
    settings: Mutex<SrcSettings>,
    running: Mutex<Option<Running>>,
    /// The statistics when it was stopped last.
    last_stats: Mutex<Option<gst::Structure>>,
    stream: Mutex<Stream>,
    /// It has played and is paused: what waits then is old.
    has_paused: Mutex<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TackSrc {
    fn shared(&self) -> Option<Arc<Shared>> {
        lock(&self.running).as_ref().map(|running| Arc::clone(&running.shared))
    }

    fn latency(&self) -> Duration {
        Duration::from_millis(u64::from(lock(&self.settings).latency_ms))
    }

    /// The running time of an instant, nanoseconds: not before the beginning.
    fn running_time(&self, at: Instant) -> Option<i64> {
        let now = self.obj().current_running_time()?.nseconds();
        let ago = Instant::now().saturating_duration_since(at).as_nanos();
        let ago = i64::try_from(ago).unwrap_or(i64::MAX);
        Some(i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(ago).max(0))
    }

    /// A buffer with the times of this pipeline.
    fn buffer(&self, received: Received) -> gst::Buffer {
        let Received { kind, meta, captured_at, is_discontinuous, data, .. } = received;
        let mut buffer = gst::Buffer::from_mut_slice(data);
        // It has just been made: nothing else refers to it.
        let Some(writable) = buffer.get_mut() else { return buffer };
        let mut flags = meta.flags;
        flags.set(gst::BufferFlags::DELTA_UNIT, kind == FrameKind::Delta);
        let local = self.running_time(captured_at);
        if let Some(local) = local {
            let carried = meta.decode_time();
            let placed =
                carried.map(|carried| lock(&self.stream).timestamps.place(carried, local));
            if let Some(by) = placed.and_then(|placed| placed.jumped) {
                gst::warning!(CAT, imp = self, "the times jump by {by:.1?}");
                flags |= gst::BufferFlags::DISCONT;
            }
            let time = |time: i64| {
                let offset = placed.map_or(0, |placed| placed.offset);
                let nanos = u64::try_from(time.saturating_add(offset)).unwrap_or(0);
                gst::ClockTime::from_nseconds(nanos)
            };
            let without = carried.is_none().then_some(local);
            writable.set_pts(meta.pts.or(without).map(time));
            writable.set_dts(meta.dts.map(time));
        }
        writable.set_duration(meta.duration.map(gst::ClockTime::from_nseconds));
        flags.set(
            gst::BufferFlags::DISCONT,
            is_discontinuous || flags.contains(gst::BufferFlags::DISCONT),
        );
        writable.set_flags(flags);
        buffer
    }

    fn set_new_caps(&self, text: &str) -> Result<(), gst::FlowError> {
        let caps = gst::Caps::from_str(text).map_err(|_| {
            gst::element_imp_error!(
                self,
                gst::StreamError::Format,
                ["the sender's caps cannot be read: {text}"]
            );
            gst::FlowError::Error
        })?;
        gst::info!(CAT, imp = self, "caps: {caps}");
        self.obj().set_caps(&caps).map_err(|_| gst::FlowError::NotNegotiated)?;
        let mut stream = lock(&self.stream);
        let headers = stream.headers.follow(&caps);
        stream.next.extend(headers);
        Ok(())
    }

    /// Takes a buffer, and the headers that come before it if it has new caps.
    fn take(&self, mut received: Received) -> Result<(), gst::FlowError> {
        if let Some(caps) = received.caps.take() {
            self.set_new_caps(&caps)?;
        }
        let mut stream = lock(&self.stream);
        // What is missing is missing in front of the headers.
        if let Some(first) = stream.next.front_mut()
            && std::mem::take(&mut received.is_discontinuous)
        {
            first.make_mut().set_flags(gst::BufferFlags::DISCONT);
        }
        if stream.headers.repeats(received.meta.flags, &received.data) {
            return Ok(());
        }
        drop(stream);
        let buffer = self.buffer(received);
        lock(&self.stream).next.push_back(buffer);
        Ok(())
    }
}

#[glib::object_subclass]
impl ObjectSubclass for TackSrc {
    const NAME: &'static str = "GstTackSrc";
    type Type = super::TackSrc;
    type ParentType = gst_base::PushSrc;
}

impl ObjectImpl for TackSrc {
    fn properties() -> &'static [glib::ParamSpec] {
        static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
            let mut properties = settings::properties();
            properties.push(
                glib::ParamSpecUInt::builder("latency")
                    .nick("Latency")
                    .blurb("How long a missing buffer is waited for, behind the fastest, milliseconds")
                    .minimum(0)
                    .maximum(MAX_LATENCY_MS)
                    .default_value(DEFAULT_LATENCY_MS)
                    .mutable_ready()
                    .build(),
            );
            properties.push(
                glib::ParamSpecBoxed::builder::<gst::Structure>("stats")
                    .nick("Statistics")
                    .blurb("Frames by what became of them, round trips and TACKs")
                    .read_only()
                    .build(),
            );
            properties
        });
        &PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, pspec: &glib::ParamSpec) {
        let mut settings = lock(&self.settings);
        match pspec.name() {
            "latency" => settings.latency_ms = value.get().unwrap_or(DEFAULT_LATENCY_MS),
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
        match pspec.name() {
            "latency" => settings.latency_ms.to_value(),
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

    fn constructed(&self) {
        self.parent_constructed();
        let element = self.obj();
        element.set_live(true);
        element.set_format(gst::Format::Time);
    }
}

impl GstObjectImpl for TackSrc {}

impl ElementImpl for TackSrc {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "TACK source",
                "Source/Network",
                "Receives live media over QUIC with TACK, as frames with deadlines",
                "tacklib",
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
            let any = gst::Caps::new_any();
            let (src, always) = (gst::PadDirection::Src, gst::PadPresence::Always);
            gst::PadTemplate::new("src", src, always, &any).into_iter().collect()
        });
        &TEMPLATES
    }

    fn change_state(
        &self,
        transition: gst::StateChange,
    ) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
        match transition {
            gst::StateChange::PlayingToPaused => *lock(&self.has_paused) = true,
            gst::StateChange::PausedToPlaying => {
                let has_paused = std::mem::take(&mut *lock(&self.has_paused));
                let oldest = self.latency() + LONGEST_START;
                if let Some(shared) = self.shared() {
                    shared.update(|state| {
                        let first = state.first_captured();
                        // What has come in a pause, or in a long wait for the first PLAYING, is too late now.
                        if has_paused || first.is_some_and(|at| at.elapsed() > oldest) {
                            state.drop_queued();
                        }
                    });
                    shared.waker.wake();
                }
            }
            _ => {}
        }
        self.parent_change_state(transition)
    }
}

impl BaseSrcImpl for TackSrc {
    fn start(&self) -> Result<(), gst::ErrorMessage> {
        let latency = self.latency();
        let settings = ReceiveSettings { link: lock(&self.settings).link.clone(), latency };
        let mode = settings.link.mode;
        let shared = Arc::new(Shared::default());
        *lock(&self.stream) = Stream::default();
        *lock(&self.has_paused) = false;
        let element = self.obj().downgrade();
        let (opened, is_open) = std::sync::mpsc::sync_channel::<Result<(), Error>>(1);
        let run = {
            let shared = Arc::clone(&shared);
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
                            crate::error::post(element.imp(), &error, Direction::Receive);
                        }
                        shared.update(|state| state.has_failed = true);
                    }
                }
            }
        };
        let thread =
            thread::Builder::new().name("tacksrc".to_owned()).spawn(run).map_err(|e| {
                gst::error_msg!(gst::ResourceError::Failed, ["cannot start a thread: {e}"])
            })?;
        if mode == Mode::Listener
            && let Ok(Err(error)) = is_open.recv()
        {
            return Err(error.message(Direction::Receive));
        }
        *lock(&self.running) = Some(Running { shared, thread });
        if mode == Mode::Listener {
            self.obj().notify("current-port");
            self.obj().notify("current-fingerprint");
        }
        Ok(())
    }

    fn stop(&self) -> Result<(), gst::ErrorMessage> {
        let Some(Running { shared, thread }) = lock(&self.running).take() else {
            return Ok(());
        };
        shared.update(|state| state.stops = true);
        // A thread that still looks for an address ends by itself when it has one, and this may be that thread.
        if shared.waker.wake() && thread.thread().id() != thread::current().id() {
            // It has told of what went wrong.
            let _ = thread.join();
        }
        *lock(&self.last_stats) = Some(stats::structure(&shared.lock()));
        Ok(())
    }

    fn is_seekable(&self) -> bool {
        false
    }

    /// The caps are set with the first buffer that has some.
    fn negotiate(&self) -> Result<(), gst::LoggableError> {
        Ok(())
    }

    fn query(&self, query: &mut gst::QueryRef) -> bool {
        if let gst::QueryViewMut::Latency(latency) = query.view_mut() {
            let least =
                gst::ClockTime::try_from(self.latency()).unwrap_or(gst::ClockTime::ZERO);
            // What waits for the pipeline is bounded by its number, not by its time.
            latency.set(true, least, gst::ClockTime::NONE);
            return true;
        }
        BaseSrcImplExt::parent_query(self, query)
    }

    fn event(&self, event: &gst::Event) -> bool {
        if gst_video::UpstreamForceKeyUnitEvent::parse(event).is_ok() {
            if let Some(shared) = self.shared() {
                shared.lock().wants_key_frame = true;
                shared.waker.wake();
            }
            return true;
        }
        self.parent_event(event)
    }

    fn unlock(&self) -> Result<(), gst::ErrorMessage> {
        if let Some(shared) = self.shared() {
            shared.update(|state| state.is_unlocked = true);
        }
        Ok(())
    }

    fn unlock_stop(&self) -> Result<(), gst::ErrorMessage> {
        if let Some(shared) = self.shared() {
            shared.update(|state| state.is_unlocked = false);
        }
        Ok(())
    }
}

impl PushSrcImpl for TackSrc {
    fn create(
        &self,
        _buffer: Option<&mut gst::BufferRef>,
    ) -> Result<CreateSuccess, gst::FlowError> {
        let Some(shared) = self.shared() else { return Err(gst::FlowError::Flushing) };
        loop {
            if let Some(buffer) = lock(&self.stream).next.pop_front() {
                return Ok(CreateSuccess::NewBuffer(buffer));
            }
            match shared.next() {
                Next::Buffer(received) => self.take(*received)?,
                Next::End => return Err(gst::FlowError::Eos),
                Next::Failed => return Err(gst::FlowError::Error),
                Next::Unlocked => return Err(gst::FlowError::Flushing),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::resolve_slowly;

    #[test]
    fn a_host_that_is_not_found_is_no_error_of_an_element_that_was_started_again() {
        gst::init().unwrap();
        let pipeline = gst::Pipeline::new();
        let element: crate::TackSrc = glib::Object::new();
        let sink = gst::ElementFactory::make("fakesink").build().unwrap();
        pipeline.add(&element).unwrap();
        pipeline.add(&sink).unwrap();
        element.link(&sink).unwrap();
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
}
