//! A stream's life: what is sent is kept until msquic has done with it, what comes is collected.

use std::ffi::c_void;

use msquic::{
    BufferRef, SendFlags, Status, Stream, StreamEvent, StreamRef, StreamShutdownFlags,
};

/// The application's error code for what is no request.
const BAD_REQUEST: u64 = 1;

/// What msquic reads until it says that it has sent it.
struct Sending {
    _bytes: Vec<u8>,
    buffers: [BufferRef; 1],
}

/// Sends all of it, and the end of the stream.
pub fn send(stream: &Stream, bytes: Vec<u8>, flags: SendFlags) -> Result<(), Status> {
    let buffers = [BufferRef::from(bytes.as_slice())];
    let sending = Box::into_raw(Box::new(Sending { _bytes: bytes, buffers }));
    // SAFETY: `sending` and the bytes it owns stay where they are until `SendComplete` hands the
    // pointer back. If sending could not begin, nothing else has it.
    unsafe {
        stream
            .send(&(*sending).buffers, flags | SendFlags::FIN, sending.cast::<c_void>())
            .inspect_err(|_| drop(Box::from_raw(sending)))
    }
}

/// A handler that gives everything received to `ended` once the stream's other end has finished,
/// and sends what that returns, if anything.
pub fn collecting(
    mut ended: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, String> + Clone + 'static,
) -> impl FnMut(StreamRef, StreamEvent<'_>) -> Result<(), Status> + Clone + 'static {
    let mut received = Vec::new();
    move |stream, event| {
        match event {
            StreamEvent::Receive { buffers, .. } => {
                for buffer in buffers {
                    received.extend_from_slice(buffer.as_bytes());
                }
            }
            StreamEvent::PeerSendShutdown => match ended(&received) {
                Ok(Some(answer)) => send(&stream, answer, SendFlags::NONE)?,
                Ok(None) => {}
                Err(error) => {
                    eprintln!("msquic-peer: {error}");
                    stream.shutdown(StreamShutdownFlags::ABORT, BAD_REQUEST)?;
                }
            },
            StreamEvent::SendComplete { client_context, .. } => {
                // SAFETY: it is the pointer that `send` gave away, and comes back once.
                drop(unsafe { Box::from_raw(client_context.cast_mut().cast::<Sending>()) });
            }
            // SAFETY: no event follows this one, and nothing else closes the handle.
            StreamEvent::ShutdownComplete { .. } => {
                drop(unsafe { Stream::from_raw(stream.as_raw()) })
            }
            _ => {}
        }
        Ok(())
    }
}
