//! The answer to a request.

use tacklib::Connection;
use tacklib::h3::{self, Header, NameValue};

use super::request::{self, Part};
use super::site::{Content, Site};

/// What is read at a time: each request that is being answered holds so much.
const CHUNK: u64 = 64 << 10;
/// The error code for a file that has become shorter (RFC 9114 section 8.1).
const INTERNAL_ERROR: u64 = 0x102;

/// An answer of which not all has left.
#[derive(Debug)]
pub struct Response {
    head: Option<Vec<Header>>,
    body: Option<Body>,
}

#[derive(Debug)]
struct Body {
    content: Content,
    left: u64,
    chunk: Vec<u8>,
    /// How much of the chunk is with the stack.
    written: usize,
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The stack takes no more for now.
    Waits,
    /// All of it is with the stack, or the stream is over.
    Done,
}

impl Response {
    /// What a request with these fields gets of a site.
    pub fn to(site: &Site, fields: &[Header]) -> Self {
        let field = |name: &[u8]| {
            let found = fields.iter().find(|header| header.name() == name);
            found.and_then(|header| str::from_utf8(header.value()).ok())
        };
        let is_head = match field(b":method") {
            Some("GET") => false,
            Some("HEAD") => true,
            _ => return Self::without_body("405", &[("allow", "GET, HEAD")]),
        };
        let path = field(b":path").unwrap_or_default();
        let Some(mut content) = site.open(path) else { return Self::without_body("404", &[]) };
        let (len, media_type) = (content.len, content.media_type);
        // Only GET has ranges (RFC 9110 section 14.2).
        let asked = field(b"range").filter(|_| !is_head);
        let (status, part, content_range) = match request::range(asked, len) {
            Part::Whole => ("200", 0..len, None),
            Part::Bytes(part) => {
                let range = format!("bytes {}-{}/{len}", part.start, part.end - 1);
                ("206", part, Some(range))
            }
            Part::OutOfRange => {
                let range = format!("bytes */{len}");
                return Self::without_body("416", &[("content-range", &range)]);
            }
        };
        let mut head = vec![
            Header::new(b":status", status.as_bytes()),
            Header::new(b"content-type", media_type.as_bytes()),
            Header::new(b"content-length", (part.end - part.start).to_string().as_bytes()),
            Header::new(b"accept-ranges", b"bytes"),
            // Pages of other origins may play it.
            Header::new(b"access-control-allow-origin", b"*"),
        ];
        if media_type.ends_with("mpegurl") {
            // It grows as long as the media are live.
            head.push(Header::new(b"cache-control", b"no-cache"));
        }
        head.extend(content_range.map(|r| Header::new(b"content-range", r.as_bytes())));
        if content.seek(part.start).is_err() {
            return Self::without_body("500", &[]);
        }
        let left = if is_head { 0 } else { part.end - part.start };
        let body = (left > 0).then(|| Body { content, left, chunk: Vec::new(), written: 0 });
        Self { head: Some(head), body }
    }

    /// An answer that consists of a status and fields.
    pub fn without_body(status: &str, fields: &[(&str, &str)]) -> Self {
        let mut head = vec![
            Header::new(b":status", status.as_bytes()),
            Header::new(b"content-length", b"0"),
        ];
        head.extend(fields.iter().map(|(n, v)| Header::new(n.as_bytes(), v.as_bytes())));
        Self { head: Some(head), body: None }
    }

    /// Hands over what the stack takes.
    pub fn send(
        &mut self,
        http: &mut h3::Connection,
        connection: &mut Connection,
        stream: u64,
    ) -> Progress {
        if let Some(head) = &self.head {
            match http.send_response(connection, stream, head, self.body.is_none()) {
                Ok(()) => self.head = None,
                Err(h3::Error::StreamBlocked) => return Progress::Waits,
                Err(error) => return given_up(stream, &error),
            }
        }
        let Some(body) = &mut self.body else { return Progress::Done };
        loop {
            if body.written == body.chunk.len() && body.read().is_err() {
                log::warn!(
                    "a file has become shorter while it was sent; its request is broken off"
                );
                // Fails if the stream is over.
                let _ =
                    connection.stream_shutdown(stream, quiche::Shutdown::Write, INTERNAL_ERROR);
                return Progress::Done;
            }
            let is_last = body.left == 0;
            match http.send_body(connection, stream, &body.chunk[body.written..], is_last) {
                Ok(taken) => body.written += taken,
                Err(h3::Error::Done) => return Progress::Waits,
                Err(error) => return given_up(stream, &error),
            }
            if is_last && body.written == body.chunk.len() {
                return Progress::Done;
            }
        }
    }
}

impl Body {
    fn read(&mut self) -> std::io::Result<()> {
        let len = self.left.min(CHUNK);
        self.chunk.resize(len as usize, 0);
        self.written = 0;
        self.content.read_exact(&mut self.chunk)?;
        self.left -= len;
        Ok(())
    }
}

/// The client has stopped the stream, or the connection is over: there is nobody to tell.
fn given_up(stream: u64, error: &h3::Error) -> Progress {
    log::debug!("stream {stream}: {error}");
    Progress::Done
}
