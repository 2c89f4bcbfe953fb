//! Where a file goes that is received alone.

use std::sync::Arc;

use super::make_way::MadeWay;
use super::part_file::{PartFile, keep_equal};
use super::place::Place;
use super::receiver::Store;
use super::root::{Root, open_file};
use super::sender::{Source, Stamp};
use super::wire::{Offer, Prefix, Resume};
use super::{
    Basis, Comparing, Digest, FileSource, Hasher, Policy, SMALL_FILE, TransferError, WirePath,
};
use std::io;

/// Where a file goes and what is already there of it.
#[derive(Debug)]
pub struct Incoming<S> {
    /// Where the content goes.
    pub store: S,
    /// What to tell the sender.
    pub resume: Resume,
    /// The state after the part's content.
    pub hasher: Hasher,
    /// The file that is to be replaced, if chunks of it may be used.
    pub basis: Option<Basis>,
}

/// A part that is made once there is something to receive: a file that turns out to be there changes nothing in its
/// directory, which may be closed.
#[derive(Debug)]
pub struct LatePart {
    place: Place,
    part: Option<PartFile>,
    limit: Option<u64>,
    made_way: MadeWay,
    /// The file that has the final name, as it was when the sender was told its digest.
    compared: Option<(Stamp, Digest)>,
}

impl Incoming<LatePart> {
    /// Prepares to receive `size` bytes into `path`; creates missing directories. Reads what
    /// is there to say how far it got.
    pub fn open(
        root: &Arc<Root>,
        path: &WirePath,
        size: u64,
        write_limit: Option<u64>,
        policy: &Arc<Policy>,
    ) -> Result<Self, TransferError> {
        Self::open_counted(root, path, size, write_limit, policy, &Comparing::default())
    }

    /// The same; `comparing` counts what is read.
    pub fn open_counted(
        root: &Arc<Root>,
        path: &WirePath,
        size: u64,
        write_limit: Option<u64>,
        policy: &Arc<Policy>,
        comparing: &Comparing,
    ) -> Result<Self, TransferError> {
        let mut store = LatePart::open(Place::find(root, path, policy)?, write_limit)?;
        let mut hasher = Hasher::default();
        let basis = store.basis().filter(|_| size > SMALL_FILE && !policy.whole_file);
        let chunk_size = basis.as_ref().map(Basis::chunk_size);
        let mut resume =
            Resume { part: None, whole: store.whole(size, comparing)?, basis: chunk_size };
        if let Some(part) =
            store.part.as_mut().filter(|part| (1..=size).contains(&part.length()))
        {
            part.hash(&mut hasher, comparing).map_err(TransferError::reading)?;
            resume.part = Some(Prefix { length: part.length(), digest: hasher.digest() });
        }
        Ok(Self { store, resume, hasher, basis })
    }

    /// The same; `made_way` hears what is removed for the file.
    #[must_use]
    pub fn with_made_way(mut self, made_way: MadeWay) -> Self {
        self.store.made_way = made_way;
        self
    }
}

impl LatePart {
    fn open(place: Place, limit: Option<u64>) -> Result<Self, TransferError> {
        let part = PartFile::open_existing(&place)?;
        Ok(Self { place, part, limit, made_way: MadeWay::default(), compared: None })
    }

    /// Digest of the file that has the final name, if it has `size` bytes.
    fn whole(
        &mut self,
        size: u64,
        comparing: &Comparing,
    ) -> Result<Option<Digest>, TransferError> {
        let Ok(file) = open_file(&self.place.directory, &self.place.final_name) else {
            return Ok(None);
        };
        let mut source = FileSource(file);
        let stamp = source.stamp().map_err(TransferError::reading)?;
        if stamp.offer.size != size {
            return Ok(None);
        }
        let mut hasher = Hasher::default();
        let mut reader = comparing.reader(&mut source.0, size);
        hasher.read(&mut reader, size).map_err(TransferError::reading)?;
        drop(reader);
        let digest = hasher.digest();
        self.compared = Some((stamp, digest));
        Ok(Some(digest))
    }

    /// The file that has the final name, if chunks of it are worth telling.
    fn basis(&self) -> Option<Basis> {
        let file = open_file(&self.place.directory, &self.place.final_name).ok()?;
        let length = file.metadata().ok()?.len();
        (length > SMALL_FILE).then(|| Basis::new(file, length))
    }

    fn made(&mut self) -> io::Result<&mut PartFile> {
        self.part.as_mut().ok_or_else(|| io::Error::other("there is no part to write to"))
    }
}

impl Store for LatePart {
    fn begin(&mut self) -> Result<(), TransferError> {
        let mut part = match self.part.take() {
            Some(part) => part,
            None => PartFile::open_at(self.place.clone())?,
        };
        part.set_write_limit(self.limit);
        self.part = Some(part.with_made_way(self.made_way.clone()));
        Ok(())
    }

    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.made()?.append(data)
    }

    fn append_zeros(&mut self, bytes: u64) -> io::Result<()> {
        self.made()?.append_zeros(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.made()?.cut(length)
    }

    fn commit(&mut self, offer: &Offer) -> io::Result<()> {
        self.made()?.commit(offer)
    }

    fn discard(&mut self) -> io::Result<()> {
        self.part.as_mut().map_or(Ok(()), PartFile::discard)
    }

    fn keep_equal(&mut self, offer: &Offer) -> Result<(), TransferError> {
        let mut source = FileSource(open_file(&self.place.directory, &self.place.final_name)?);
        let now = source.stamp().map_err(TransferError::reading)?;
        let Some((stamp, digest)) = self.compared else {
            return Err(TransferError::BasisChanged);
        };
        if stamp != now {
            // Its content, or its attributes alone: perhaps by another of its names.
            let mut hasher = Hasher::default();
            let length =
                hasher.read(&mut source.0, offer.size + 1).map_err(TransferError::reading)?;
            if length != offer.size || hasher.digest() != digest {
                return Err(TransferError::BasisChanged);
            }
        }
        keep_equal(&source.0, &self.place.policy, offer).map_err(TransferError::writing)
    }
}
