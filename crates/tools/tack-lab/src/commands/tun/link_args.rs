//! The link of a command in real time, as options.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;
use tack_link::Link;
use tack_link::spec::{LinkSpec, PathSpec};

/// Which link, and the path behind it.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct LinkArgs {
    /// The link: b, g, n, ac, pipe:MBIT, pipe:DOWN/UP or a TOML file.
    #[arg(long, default_value = "n", value_name = "SPEC")]
    link: String,
    /// Round-trip propagation delay besides the link's own: by default 40 ms, and 0 for a link
    /// from a file.
    #[arg(long, value_name = "MS")]
    #[serde(skip)]
    rtt: Option<f64>,
    /// Probability from 0 to 1 that a packet of the first end is lost, behind the link.
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    loss_data: f64,
    /// Probability from 0 to 1 that a packet of the second end is lost, before the link.
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    loss_ack: f64,
    /// Seed of everything that is random in the link; programs in real time add their own.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Let the run count although packets were delivered late.
    #[arg(long)]
    #[serde(skip)]
    pub allow_misses: bool,
    /// Print JSON.
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
}

/// A link ready to use, with what describes it in a report.
pub struct ChosenLink {
    pub spec: LinkSpec,
    pub path: PathSpec,
    pub link: Box<dyn Link + Send>,
}

impl LinkArgs {
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    pub fn choose(&self) -> Result<ChosenLink> {
        let spec = LinkSpec::resolve(&self.link)?;
        let rtt = match self.rtt.map(|ms| Duration::try_from_secs_f64(ms / 1e3)) {
            None => spec.default_rtt(),
            Some(Ok(rtt)) => rtt,
            Some(Err(error)) => bail!("--rtt: {error}"),
        };
        let path = PathSpec { rtt, loss_forward: self.loss_data, loss_reverse: self.loss_ack };
        let link = spec.build(&path, self.seed)?;
        Ok(ChosenLink { spec, path, link })
    }

    /// Link and path in a few words, for the head of a table.
    pub fn describe(&self, path: &PathSpec) -> String {
        format!(
            "{}, RTT {} ms, loss {} data {} ACK, seed {}",
            self.link,
            path.rtt.as_secs_f64() * 1e3,
            self.loss_data,
            self.loss_ack,
            self.seed
        )
    }
}
