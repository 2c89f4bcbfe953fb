//! The headers that a container has once, at its beginning. A receiver that comes later gets them out of the caps.

use crate::payload::MAX_CAPS;

/// Formats whose streams begin with the buffers in the field `streamheader` of their caps. Decoders look for the headers
/// of a codec in the caps themselves, and a stream of MPEG-TS repeats its own all the time.
const CONTAINERS: [&str; 12] = [
    "application/ogg",
    "application/x-gdp",
    "audio/ogg",
    "audio/webm",
    "audio/x-matroska",
    "video/ogg",
    "video/quicktime",
    "video/webm",
    "video/x-flv",
    "video/x-matroska",
    "video/x-matroska-3d",
    "video/x-ms-asf",
];

/// The headers of the caps that were set last. A muxer may cut them otherwise in the stream than in its caps, so that
/// bytes are compared.
#[derive(Debug, Default)]
pub(super) struct StreamHeaders {
    bytes: Vec<u8>,
    /// No buffer but these headers has come with these caps.
    is_at_beginning: bool,
    /// The headers that came last, with nothing behind them.
    trail: Vec<u8>,
}

impl StreamHeaders {
    /// The caps are new: the buffers to hand on in front of the next one.
    pub fn follow(&mut self, caps: &gst::CapsRef) -> Vec<gst::Buffer> {
        let headers = of_caps(caps);
        let readable = headers.iter().filter_map(|header| header.map_readable().ok());
        self.bytes = readable.flat_map(|header| header.to_vec()).collect();
        self.is_at_beginning = true;
        // matroskamux sets its caps when it has written the headers.
        if self.trail.ends_with(&self.bytes) { Vec::new() } else { headers }
    }

    /// Whether a buffer is of the headers once more: the sender's stream begins with them, too.
    pub fn repeats(&mut self, flags: gst::BufferFlags, data: &[u8]) -> bool {
        let is_header = flags.contains(gst::BufferFlags::HEADER) && !data.is_empty();
        self.is_at_beginning &=
            is_header && self.bytes.windows(data.len()).any(|bytes| bytes == data);
        if self.is_at_beginning {
            return true;
        }
        if !is_header || self.trail.len() + data.len() > MAX_CAPS {
            self.trail.clear();
        } else {
            self.trail.extend_from_slice(data);
        }
        false
    }
}

/// The buffers of the field `streamheader`.
fn of_caps(caps: &gst::CapsRef) -> Vec<gst::Buffer> {
    let Some(structure) = caps.structure(0) else { return Vec::new() };
    if !CONTAINERS.contains(&structure.name().as_str()) {
        return Vec::new();
    }
    let Ok(headers) = structure.get::<gst::Array>("streamheader") else { return Vec::new() };
    let header = |value: &gst::glib::SendValue| {
        let mut header = value.get::<gst::Buffer>().ok()?;
        header.make_mut().set_flags(gst::BufferFlags::HEADER);
        Some(header)
    };
    headers.iter().filter_map(header).collect()
}

#[cfg(test)]
mod tests {
    use gst::prelude::*;

    use super::*;

    const HEADER: gst::BufferFlags = gst::BufferFlags::HEADER;

    /// Caps with the headers `ab` and `cd`, as they come from the network.
    fn caps(name: &str) -> gst::Caps {
        gst::init().unwrap();
        let headers = [b"ab", b"cd"].map(|bytes| gst::Buffer::from_slice(*bytes));
        let headers = gst::Array::from_values(headers.map(|header| header.to_send_value()));
        let caps = gst::Caps::builder(name).field("streamheader", headers).build();
        caps.to_string().parse().unwrap()
    }

    fn bytes(buffers: &[gst::Buffer]) -> Vec<Vec<u8>> {
        buffers.iter().map(|one| one.map_readable().unwrap().to_vec()).collect()
    }

    #[test]
    fn headers_come_out_of_the_caps_and_not_out_of_the_beginning_of_the_stream() {
        let mut headers = StreamHeaders::default();
        let handed_on = headers.follow(&caps("video/x-matroska"));
        assert_eq!(bytes(&handed_on), [b"ab", b"cd"]);
        assert!(handed_on.iter().all(|one| one.flags().contains(HEADER)));
        // In other pieces, and a receiver may come between the two.
        assert!(headers.repeats(HEADER, b"abc") && headers.repeats(HEADER, b"d"));
        assert!(!headers.repeats(gst::BufferFlags::empty(), b"cd"), "it is no header");
        assert!(!headers.repeats(HEADER, b"ab"), "the sender has begun anew");
        headers.follow(&caps("video/x-flv"));
        assert!(headers.repeats(HEADER, b"ab"));
    }

    #[test]
    fn headers_that_came_just_before_their_caps_are_not_handed_on_again() {
        let mut headers = StreamHeaders::default();
        headers.follow(&"video/webm".parse::<gst::Caps>().unwrap());
        assert!(!headers.repeats(HEADER, b"abc") && !headers.repeats(HEADER, b"d"));
        assert!(headers.follow(&caps("video/webm")).is_empty());
        assert!(!headers.repeats(gst::BufferFlags::empty(), b"xy"));
        assert_eq!(headers.follow(&caps("video/webm")).len(), 2);
    }

    #[test]
    fn headers_that_are_no_part_of_the_stream_stay_in_the_caps() {
        for name in ["video/mpegts", "video/x-vp8", "audio/x-flac"] {
            let mut headers = StreamHeaders::default();
            assert!(headers.follow(&caps(name)).is_empty());
            assert!(!headers.repeats(HEADER, b"ab"));
        }
    }

    #[test]
    fn caps_without_headers_add_nothing() {
        gst::init().unwrap();
        let mut headers = StreamHeaders::default();
        for caps in ["video/webm", "video/webm,streamheader=1", "video/webm,streamheader=<1>"] {
            assert!(headers.follow(&caps.parse::<gst::Caps>().unwrap()).is_empty());
            assert!(!headers.repeats(HEADER, b"ab"));
        }
    }
}
