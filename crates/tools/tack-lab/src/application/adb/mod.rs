//! The part of adb's protocol that moves a file: a stream of `A_WRTE` and their `A_OKAY`.
//!
//! Without delayed ACK one `A_WRTE` is in flight, and the next one waits for its `A_OKAY`. With it the
//! host sends while its available send bytes (ASB) are positive: an `A_WRTE` takes its payload off them,
//! an `A_OKAY` says how much to add. Both ends agree on it as the stream is opened: the host wishes for
//! it in `arg1` of `A_OPEN`, the device grants the first ASB in its `A_OKAY`, or answers with `A_CLSE` if
//! it does not know of it. Then the host opens the stream again without the wish.

mod device;
mod host;
mod packet;
mod trace;

pub use device::Device;
pub use host::{Host, Push};
pub use packet::{Command, Packet};
pub use trace::{Trace, TraceLine};

/// The most that an `A_WRTE` may carry, bytes.
pub const MAX_PAYLOAD: usize = 1 << 20;
