//! tacklib for C and C++: quiche's C interface with TACK inside.
//!
//! The functions are quiche's, with `tack_` in the place of `quiche_`, and some of tacklib's own. They are
//! documented in `include/tacklib.h`, which cbindgen makes of this crate's sources. Rust programs have
//! no use for it: they call [`tack_quiche`] or [`tack_quiche::tacklib`].
//!
//! # What C hands over
//!
//! The functions have types that a C compiler sees as plain pointers and that say what may come: objects
//! are `Option<&T>` and `Option<Box<T>>`, for which Rust guarantees the representation of a pointer that may
//! be NULL, single values that are written are `Option<&mut MaybeUninit<T>>`, what has a length of its own
//! is one of the types of [`mod@pointer`] and [`address`], and enums are [`number`]s. [`mod@pointer`] and
//! [`address`] hold all `unsafe` blocks of the crate; nothing but C can make a value of their types.
//! `#[unsafe(no_mangle)]` is on every function: the prefix `tack_` keeps the names apart from those of
//! others.
//!
//! # Panics
//!
//! A panic ends the process: Rust aborts where one would leave an `extern "C"` function. The state that it
//! leaves behind is not known, so nothing catches it.

#![deny(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]
#![allow(
    non_camel_case_types,
    reason = "the names are those of C, so that a search for one finds the code"
)]
#![allow(
    clippy::needless_pass_by_value,
    clippy::redundant_closure_for_method_calls,
    clippy::too_many_arguments,
    reason = "the functions are C's, and alike"
)]

pub mod address;
mod clock;
pub mod config;
pub mod conn;
pub mod error;
pub mod frames;
pub mod h3;
mod header;
pub mod library;
pub mod number;
pub mod packet;
pub mod pointer;
