//! Links of [`tack_link`] in real time, for programs that know nothing of them.
//!
//! [`tun`] puts a link between two network namespaces, so that any program, and the kernel's
//! own TCP, can run over it ([`tcp`]). [`relay`] puts one between UDP sockets on the loopback
//! interface, and needs no privileges.

#![forbid(unsafe_code)]

/// The largest IP packet that an emulated link takes, bytes: that of Ethernet and Wi-Fi.
pub const MTU: u16 = 1500;

#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod netns;
pub mod relay;
#[cfg(target_os = "linux")]
pub mod tcp;
#[cfg(target_os = "linux")]
pub mod tun;
