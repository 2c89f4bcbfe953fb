//! Enumerations as numbers: C may pass one that its enum does not have, which no Rust enum can hold.

use std::ffi::c_int;

/// Defines types that `cbindgen.toml` has C see as its enums.
macro_rules! numbers {
    ($($(#[$attribute:meta])* $name:ident;)*) => {
        $(
            $(#[$attribute])*
            #[repr(transparent)]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name(pub(crate) c_int);
        )*
    };
}

numbers! {
    /// `enum tack_cc_algorithm`.
    CcAlgorithmNumber;
    /// `enum tack_ecn`.
    EcnNumber;
    /// `enum tack_frame_kind`.
    FrameKindNumber;
    /// `enum tack_h3_event_type`; -1 for no event.
    H3EventNumber;
    /// `enum tack_path_event_type`; -1 for no event.
    PathEventNumber;
    /// `enum tack_profile`.
    ProfileNumber;
    /// `enum tack_shutdown`.
    ShutdownNumber;
}
