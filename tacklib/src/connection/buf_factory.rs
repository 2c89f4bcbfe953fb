//! The name of quiche's default buffer factory, which quiche does not export.

use quiche::BufFactory;

/// The buffer factory of a connection type.
pub trait HasFactory {
    /// It.
    type Factory: BufFactory;
}

impl<F: BufFactory> HasFactory for quiche::Connection<F> {
    type Factory = F;
}

/// The buffer factory of `quiche::Connection` where none is named.
pub type DefaultBufFactory = <quiche::Connection as HasFactory>::Factory;
