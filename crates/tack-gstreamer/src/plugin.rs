//! What GStreamer looks for in a plugin.

#![allow(missing_docs, reason = "the macro writes the items")]

use gst::glib;

use crate::{log_bridge, sink, source};

fn plugin_init(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    log_bridge::install();
    sink::register(plugin)?;
    source::register(plugin)
}

gst::plugin_define!(
    tack,
    env!("CARGO_PKG_DESCRIPTION"),
    plugin_init,
    env!("CARGO_PKG_VERSION"),
    "BSD",
    "tacklib",
    "tacklib",
    "tacklib",
    "2026-11-24"
);
