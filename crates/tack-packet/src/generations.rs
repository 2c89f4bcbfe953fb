//! The keys of one direction around the generation in use (RFC 9001 section 6).

use std::mem;

use crate::{
    CipherSuite, Error,
    header::HeaderProtection,
    keys::{GenerationKeys, TrafficSecret},
};

/// The keys of the current generation, the one before it and the one after it.
///
/// The next keys exist before they are needed, so that a key phase bit costs no derivation until
/// a packet that carries it has been authenticated (RFC 9001 section 6.3). Of the traffic
/// secrets, that of the next generation is the only one left: the others are wiped.
pub(crate) struct Generations {
    suite: CipherSuite,
    header: HeaderProtection,
    previous: Option<GenerationKeys>,
    current: GenerationKeys,
    next: GenerationKeys,
    next_secret: TrafficSecret,
    generation: u64,
}

impl Generations {
    pub(crate) fn new(suite: CipherSuite, traffic_secret: &[u8]) -> Result<Self, Error> {
        let mut secret = TrafficSecret::new(suite, traffic_secret)?;
        let header = secret.header_protection()?;
        let current = secret.keys()?;
        secret.advance()?;
        let next = secret.keys()?;
        Ok(Self {
            suite,
            header,
            previous: None,
            current,
            next,
            next_secret: secret,
            generation: 0,
        })
    }

    #[inline]
    pub(crate) fn suite(&self) -> CipherSuite {
        self.suite
    }

    #[inline]
    pub(crate) fn header(&self) -> &HeaderProtection {
        &self.header
    }

    /// How many key updates came before the current keys.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    #[inline]
    pub(crate) fn current(&self) -> &GenerationKeys {
        &self.current
    }

    #[inline]
    pub(crate) fn next(&self) -> &GenerationKeys {
        &self.next
    }

    #[inline]
    pub(crate) fn has_previous(&self) -> bool {
        self.previous.is_some()
    }

    pub(crate) fn keys(&self, generation: u64) -> Result<&GenerationKeys, Error> {
        const ONE_BEFORE: u64 = u64::MAX;

        match generation.wrapping_sub(self.generation) {
            0 => Some(&self.current),
            1 => Some(&self.next),
            ONE_BEFORE => self.previous.as_ref(),
            _ => None,
        }
        .ok_or(Error::UnknownGeneration { generation, current: self.generation })
    }

    /// Makes the next keys the current ones.
    pub(crate) fn advance(&mut self) -> Result<(), Error> {
        self.next_secret.advance()?;
        let after_next = self.next_secret.keys()?;
        let new_current = mem::replace(&mut self.next, after_next);
        self.previous = Some(mem::replace(&mut self.current, new_current));
        self.generation += 1;
        Ok(())
    }

    pub(crate) fn discard_previous(&mut self) {
        self.previous = None;
    }
}

/// The key phase bit of a generation: that of the first is 0, and each update flips it.
pub(crate) const fn key_phase(generation: u64) -> bool {
    generation % 2 == 1
}
