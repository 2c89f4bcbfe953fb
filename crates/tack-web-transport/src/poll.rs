//! The half of the traits for programs that poll, of `web-transport-trait` 0.5 and, with the feature
//! `trait-0-4`, of 0.4, over which the crates of Media over QUIC are generic.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::Error;

type Bi<S> = (
    <S as web_transport_trait::Session>::SendStream,
    <S as web_transport_trait::Session>::RecvStream,
);

/// An operation that was polled and is not complete. The lock is only for `Sync`: nobody waits for it.
struct Op<T>(Mutex<Option<Pin<Box<dyn Future<Output = T> + Send>>>>);

impl<T> Default for Op<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Op<T> {
    fn poll<F>(&mut self, cx: &mut Context<'_>, start: impl FnOnce() -> F) -> Poll<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let operation = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let poll = operation.get_or_insert_with(|| Box::pin(start())).as_mut().poll(cx);
        if poll.is_ready() {
            *operation = None;
        }
        poll
    }
}

/// The operations of one handle of a session. A clone of the handle starts its own.
pub(crate) struct Ops<S: web_transport_trait::Session> {
    accept_uni: Op<Result<S::RecvStream, S::Error>>,
    accept_bi: Op<Result<Bi<S>, S::Error>>,
    open_uni: Op<Result<S::SendStream, S::Error>>,
    open_bi: Op<Result<Bi<S>, S::Error>>,
    recv_datagram: Op<Result<Bytes, S::Error>>,
    closed: Op<S::Error>,
}

impl<S: web_transport_trait::Session> Default for Ops<S> {
    fn default() -> Self {
        Self {
            accept_uni: Op::default(),
            accept_bi: Op::default(),
            open_uni: Op::default(),
            open_bi: Op::default(),
            recv_datagram: Op::default(),
            closed: Op::default(),
        }
    }
}

impl<S: web_transport_trait::Session> Clone for Ops<S> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<S: web_transport_trait::Session> fmt::Debug for Ops<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ops").finish_non_exhaustive()
    }
}

/// Starts or continues an operation of a session, on a clone of it.
macro_rules! operation {
    ($session:ident, $cx:ident, $ops:tt, $operation:ident) => {{
        let start = {
            let session = $session.clone();
            || async move { web_transport_trait::Session::$operation(&session).await }
        };
        $session.$ops.$operation.poll($cx, start)
    }};
}

/// Implements the traits for a session whose operations are in a field, and for its streams.
macro_rules! poll_traits {
    ($traits:ident, $order:ty, $session:ty, $ops:tt, $send:ty, $recv:ty) => {
        impl $traits::poll::Session for $session {
            type SendStream = $send;
            type RecvStream = $recv;
            type Error = Error;

            fn poll_accept_uni(&mut self, cx: &mut Context<'_>) -> Poll<Result<$recv, Error>> {
                operation!(self, cx, $ops, accept_uni)
            }

            fn poll_accept_bi(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<($send, $recv), Error>> {
                operation!(self, cx, $ops, accept_bi)
            }

            fn poll_open_uni(&mut self, cx: &mut Context<'_>) -> Poll<Result<$send, Error>> {
                operation!(self, cx, $ops, open_uni)
            }

            fn poll_open_bi(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<($send, $recv), Error>> {
                operation!(self, cx, $ops, open_bi)
            }

            /// Never waits: one that finds the queue full is dropped.
            fn poll_send_datagram(
                &mut self,
                _: &mut Context<'_>,
                payload: &[u8],
            ) -> Poll<Result<(), Error>> {
                let payload = Bytes::copy_from_slice(payload);
                Poll::Ready(web_transport_trait::Session::send_datagram(self, payload))
            }

            fn poll_recv_datagram(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Bytes, Error>> {
                operation!(self, cx, $ops, recv_datagram)
            }

            fn max_datagram_size(&self) -> usize {
                web_transport_trait::Session::max_datagram_size(self)
            }

            fn protocol(&self) -> Option<&str> {
                web_transport_trait::Session::protocol(self)
            }

            fn close(&mut self, code: u32, reason: &str) {
                web_transport_trait::Session::close(self, code, reason);
            }

            fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
                operation!(self, cx, $ops, closed)
            }

            fn stats(&self) -> impl $traits::Stats {
                crate::Stats::of(self.connection())
            }
        }

        impl $traits::poll::SendStream for $send {
            type Error = Error;

            fn poll_write(
                &mut self,
                cx: &mut Context<'_>,
                data: &[u8],
            ) -> Poll<Result<usize, Error>> {
                self.poll_write_data(cx, data)
            }

            fn set_priority(&mut self, order: $order) {
                web_transport_trait::SendStream::set_priority(self, i32::from(order));
            }

            fn finish(&mut self) -> Result<(), Error> {
                web_transport_trait::SendStream::finish(self)
            }

            fn reset(&mut self, code: u32) {
                web_transport_trait::SendStream::reset(self, code);
            }

            fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
                self.poll_end(cx)
            }
        }

        impl $traits::poll::RecvStream for $recv {
            type Error = Error;

            fn poll_read(
                &mut self,
                cx: &mut Context<'_>,
                buffer: &mut [u8],
            ) -> Poll<Result<Option<usize>, Error>> {
                self.poll_read_data(cx, buffer)
            }

            fn poll_read_chunk(
                &mut self,
                cx: &mut Context<'_>,
                max: usize,
            ) -> Poll<Result<Option<Bytes>, Error>> {
                self.poll_chunk(cx, max)
            }

            fn stop(&mut self, code: u32) {
                web_transport_trait::RecvStream::stop(self, code);
            }

            fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
                self.poll_end(cx)
            }
        }
    };
}

poll_traits!(
    web_transport_trait,
    i32,
    crate::Session,
    ops,
    crate::SendStream,
    crate::RecvStream
);
poll_traits!(
    web_transport_trait,
    i32,
    crate::http3::Session,
    1,
    crate::http3::SendStream,
    crate::http3::RecvStream
);

#[cfg(feature = "trait-0-4")]
mod trait_0_4 {
    use std::time::Duration;

    use ::web_transport_trait_0_4 as trait_0_4;

    use super::{Bytes, Context, Error, Poll};
    use crate::Stats;

    poll_traits!(trait_0_4, u8, crate::Session, ops, crate::SendStream, crate::RecvStream);
    poll_traits!(
        trait_0_4,
        u8,
        crate::http3::Session,
        1,
        crate::http3::SendStream,
        crate::http3::RecvStream
    );

    impl trait_0_4::Error for Error {
        fn session_error(&self) -> Option<(u32, String)> {
            web_transport_trait::Error::session_error(self)
        }

        fn stream_error(&self) -> Option<u32> {
            web_transport_trait::Error::stream_error(self)
        }
    }

    impl trait_0_4::Stats for Stats {
        fn bytes_sent(&self) -> Option<u64> {
            web_transport_trait::Stats::bytes_sent(self)
        }

        fn bytes_received(&self) -> Option<u64> {
            web_transport_trait::Stats::bytes_received(self)
        }

        fn bytes_lost(&self) -> Option<u64> {
            web_transport_trait::Stats::bytes_lost(self)
        }

        fn packets_sent(&self) -> Option<u64> {
            web_transport_trait::Stats::packets_sent(self)
        }

        fn packets_received(&self) -> Option<u64> {
            web_transport_trait::Stats::packets_received(self)
        }

        fn packets_lost(&self) -> Option<u64> {
            web_transport_trait::Stats::packets_lost(self)
        }

        fn rtt(&self) -> Option<Duration> {
            web_transport_trait::Stats::rtt(self)
        }

        fn estimated_send_rate(&self) -> Option<u64> {
            web_transport_trait::Stats::estimated_send_rate(self)
        }
    }
}
