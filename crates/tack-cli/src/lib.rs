//! `tack`: moves files over QUIC with TACK.
//!
//! The library [`tack_transfer`] moves them; here is what a user of the program sees of that.
//!
//! | Module | Concept |
//! |---|---|
//! | [`target`], [`token`], [`known_hosts`] | addresses, access tokens, servers trusted before |
//! | [`ssh`] | transfers that ssh starts |
//! | [`ticket`] | all that it takes to receive what somebody shares |
//! | [`destination`] | where what is fetched may go |
//! | [`termination`] | signals that end a command |
//! | [`waiting`] | what may take for ever: ssh, name servers, answers of the user |
//! | [`lb_config`] | what a server and a load balancer agree upon |
//! | [`config_file`] | options that are set in a file |
//! | [`commands`] | what the command line offers |
//! | [`demo`] | plain QUIC and TACK side by side over an emulated link |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod cli;
pub mod commands;
pub mod config_file;
pub mod demo;
pub mod destination;
pub mod error;
pub mod exit;
pub mod known_hosts;
pub mod lb_config;
pub mod limits;
pub mod progress;
pub mod ssh;
pub mod summary;
pub mod target;
pub mod termination;
pub mod ticket;
pub mod token;
pub mod units;
pub mod user_directories;
pub mod waiting;
