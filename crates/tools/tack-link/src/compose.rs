//! Links made of links.

mod chain;
mod deaf;
mod duplex;
mod network;
mod omitting;
mod paused;
mod per_flow;

pub use self::chain::Chain;
pub use self::deaf::Deaf;
pub use self::duplex::Duplex;
pub use self::omitting::Omitting;
pub use self::paused::{Paused, Pauses};
pub use self::per_flow::PerFlow;

use crate::Link;

/// A link of any kind, as part of another.
pub type BoxedLink = Box<dyn Link + Send>;

#[cfg(test)]
mod tests;
