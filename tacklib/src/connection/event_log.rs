//! The layer's events in quiche's qlog file.

use super::Connection;

impl Connection {
    /// Writes what the layer noted through quiche's own streamer, so that one
    /// file has one clock, one level and all events in order of time. To be
    /// called when quiche has written its own events on a packet: it takes the
    /// time before it reads or writes one.
    #[cfg(feature = "qlog")]
    pub(super) fn write_journal(&mut self) {
        let Some(layer) = &mut self.layer else { return };
        let streamer = self.inner.qlog_streamer();
        layer.journal.set_enabled(streamer.is_some());
        let Some(streamer) = streamer else { return };
        layer.journal.on_state(&layer.sender, &layer.receiver);
        let mut now = None;
        for event in layer.journal.take() {
            let now = *now.get_or_insert_with(std::time::Instant::now);
            // A log that cannot be written must not stop the connection.
            let _ = streamer.add_event_with_instant(event, now);
        }
    }

    #[cfg(not(feature = "qlog"))]
    #[allow(clippy::unused_self)] // the same calls with and without
    pub(super) fn write_journal(&mut self) {}
}

#[cfg(feature = "qlog")]
impl qlog::events::Eventable for crate::journal::Event {
    fn importance(&self) -> qlog::events::EventImportance {
        qlog::events::EventImportance::Base
    }

    fn set_time(&mut self, time: f64) {
        self.time = time;
    }
}
