//! Names for connections.

use std::fmt;

/// Names one connection of one [`Endpoint`](crate::Endpoint).
///
/// A handle is never given to a later connection: once its connection is gone, it names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

#[cfg(test)]
impl Handle {
    pub(crate) fn for_test(index: u32) -> Self {
        Self { index, generation: 0 }
    }
}
