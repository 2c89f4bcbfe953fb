//! The commands of the tool, one file each.

pub mod list;
pub mod medium;
pub mod nagle;
#[cfg(target_os = "linux")]
pub mod relay;
pub mod report;
pub mod run;
pub mod soak;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod transfer;
pub mod tun;
