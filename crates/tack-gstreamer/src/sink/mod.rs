//! `tacksink`: sends what its pad receives.

use gst::glib;
use gst::prelude::*;

mod capture_time;
mod imp;
mod outgoing;
mod session;
mod shared;
mod stats;
mod worker;

glib::wrapper! {
    /// The element `tacksink`.
    pub struct TackSink(ObjectSubclass<imp::TackSink>)
        @extends gst_base::BaseSink, gst::Element, gst::Object;
}

pub(crate) fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    gst::Element::register(Some(plugin), "tacksink", gst::Rank::NONE, TackSink::static_type())
}
