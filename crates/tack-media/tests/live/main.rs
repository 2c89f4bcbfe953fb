//! An encoder, a sender and a viewer over a link in virtual time.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot be set up has failed
#![allow(clippy::disallowed_methods)] // its clock is virtual

mod link;
mod outages;
mod rates;
