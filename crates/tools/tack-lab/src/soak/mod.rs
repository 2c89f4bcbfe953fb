//! Random links by the thousand: the same transfer over each by TACK and by its rivals.
//!
//! A figure of the paper is one link, chosen with care. What is drawn at random finds the links
//! that no experiment has. A seed decides everything: the link, the transfer and all that is
//! left to chance on the way, so each result can be repeated by itself.

mod comparison;
mod random_link;
mod summary;

pub use comparison::{Comparison, RIVALS, Transfer, compare};
pub use random_link::RandomLink;
pub use summary::{Quantiles, Summary};
