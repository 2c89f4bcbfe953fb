//! `tacksrc`: gives a pipeline what a sender sends.

use gst::glib;
use gst::prelude::*;

mod imp;
mod output;
mod session;
mod stats;
mod stream_headers;
mod timestamps;
mod worker;

glib::wrapper! {
    /// The element `tacksrc`.
    pub struct TackSrc(ObjectSubclass<imp::TackSrc>)
        @extends gst_base::PushSrc, gst_base::BaseSrc, gst::Element, gst::Object;
}

pub(crate) fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    gst::Element::register(Some(plugin), "tacksrc", gst::Rank::NONE, TackSrc::static_type())
}
