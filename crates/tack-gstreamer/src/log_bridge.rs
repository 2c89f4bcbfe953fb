//! What tacklib and the endpoint log, in GStreamer's log under the category `tack`.

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::CAT;

struct Bridge;

/// Has the libraries log here, unless the program has a logger of its own.
pub fn install() {
    // Fails if there is one, which is what the program wants then.
    if log::set_logger(&Bridge).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
}

fn level(level: Level) -> gst::DebugLevel {
    match level {
        // An error of a connection need not be one of the element, which tells that itself.
        Level::Error | Level::Warn => gst::DebugLevel::Warning,
        Level::Info => gst::DebugLevel::Info,
        Level::Debug => gst::DebugLevel::Debug,
        Level::Trace => gst::DebugLevel::Trace,
    }
}

impl Log for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        level(metadata.level()) <= CAT.threshold()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let level = level(record.level());
            gst::log_with_level!(CAT, level, "{}: {}", record.target(), record.args());
        }
    }

    fn flush(&self) {}
}
