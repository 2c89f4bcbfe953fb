//! `tack`: moves files over QUIC with TACK.
//!
//! | Module | Concept |
//! |---|---|
//! | [`transfer`] | the protocol without sockets: messages, both ends of a file, directory trees |
//! | [`session`] | connections, and the worker threads that touch the disk |
//! | [`quic`] | the QUIC configuration of both ends |
//! | [`identity`], [`target`], [`token`], [`known_hosts`] | certificates, addresses, access tokens, servers trusted before |
//! | [`cc_parameters`] | what earlier connections observed of their paths |
//! | [`ssh`] | transfers that ssh starts |
//! | [`ticket`] | all that it takes to receive what somebody shares |
//! | [`termination`] | signals that end a command |
//! | [`lb_config`] | what a server and a load balancer agree upon |
//! | [`config_file`] | options that are set in a file |
//! | [`commands`] | what the command line offers |
//! | [`demo`] | plain QUIC and TACK side by side over an emulated link |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod cc_parameters;
pub mod cli;
pub mod commands;
pub mod config_file;
pub mod demo;
pub mod error;
pub mod exit;
pub mod identity;
pub mod known_hosts;
pub mod lb_config;
pub mod progress;
pub mod quic;
mod secret_file;
pub mod session;
pub mod ssh;
pub mod summary;
pub mod target;
pub mod termination;
pub mod ticket;
pub mod token;
pub mod transfer;
pub mod units;
pub mod user_directories;
