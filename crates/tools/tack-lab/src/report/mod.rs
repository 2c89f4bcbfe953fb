//! What an experiment found, and how it is shown: tables in a terminal, JSON for programs, and
//! a page for people.

mod check;
mod html;
mod outcome;
mod plot;
mod store;
mod svg;
mod table;

pub use check::{Check, Kind};
pub use html::page;
pub use outcome::Outcome;
pub use plot::{Axis, BarSeries, Chart, Colour, Mark, Plot, Scale, Series, Source};
pub use store::{Error as StoreError, Store};
pub use svg::{Embedding, render};
pub use table::{Column, Table};
