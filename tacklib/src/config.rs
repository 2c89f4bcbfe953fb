//! Configuration of a connection: quiche's own, and the layer's.

use std::ops::{Deref, DerefMut};

/// Which behaviour a connection is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// TACK with the paper's defaults (L = 2, beta = 4).
    #[default]
    Default,
    /// Plain quiche, for comparison.
    Off,
}

/// A [`quiche::Config`] with the layer's settings beside it.
pub struct Config {
    inner: quiche::Config,
    profile: Profile,
}

impl Config {
    /// Creates a configuration for the given QUIC version.
    pub fn new(version: u32) -> quiche::Result<Self> {
        Ok(Self { inner: quiche::Config::new(version)?, profile: Profile::Default })
    }

    /// Selects a profile.
    pub fn set_profile(&mut self, profile: Profile) {
        self.profile = profile;
    }
}

impl Deref for Config {
    type Target = quiche::Config;
    fn deref(&self) -> &quiche::Config {
        &self.inner
    }
}

impl DerefMut for Config {
    fn deref_mut(&mut self) -> &mut quiche::Config {
        &mut self.inner
    }
}
