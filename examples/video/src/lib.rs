//! A live video sender and player over tack-media.
//!
//! The program `video` is a thin command line over this library; the README beside it has its commands. The parts
//! that decide something own no socket, thread or clock: [`session::Session`] sends to one player,
//! [`player::Player`] plays what one sender sends, and both work on a [`tacklib::Connection`].
//!
//! | Module | Concept |
//! |---|---|
//! | `sample`, `payload` | a picture or a piece of sound, and its form in a frame of tack-media |
//! | `init`, `segment`, `recording` | fragmented MP4: the tracks, samples out of a file, samples into a file |
//! | `ladder`, `synthetic`, `source` | media on disk at several bit rates, media without an encoder, and either |
//! | `ffmpeg` | media made on the spot |
//! | `timeline`, `capture_clock` | one time line for all that is sent, and when it is captured |
//! | `session` | the sender's share for one player |
//! | `sink`, `datagrams` | frames on streams or in DATAGRAMs |
//! | `player`, `partial_frames`, `freezes`, `output` | the player's |
//! | `report`, `notice` | what is counted, and what a person should know |
//! | `trace` | the rate of a link in time |
//! | `http3`, `web` | the same media as HLS over HTTP/3, and live for browsers over WebTransport |
//! | `browser` | the certificate and what the pages of both share |
//! | `transport`, `serve`, `watch`, `demo` | sockets and threads |

#![forbid(unsafe_code)]

pub mod browser;
pub mod capture_clock;
pub mod cli;
pub mod datagrams;
pub mod demo;
pub mod ffmpeg;
pub mod freezes;
pub mod http3;
pub mod init;
pub mod ladder;
pub mod notice;
pub mod output;
pub mod partial_frames;
pub mod payload;
pub mod player;
pub mod rates;
pub mod recording;
pub mod report;
pub mod sample;
pub mod segment;
pub mod serve;
pub mod session;
pub mod sink;
pub mod source;
pub mod synthetic;
pub mod timeline;
pub mod trace;
pub mod transport;
pub mod watch;
pub mod web;
