//! UDP sockets for tacklib
