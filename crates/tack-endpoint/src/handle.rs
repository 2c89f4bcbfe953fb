//! Names for connections, and the table they point into.

use std::fmt;

/// Names one connection of one [`Endpoint`](crate::Endpoint).
///
/// A handle is never taken over by a later connection: once its connection is gone, it names
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    index: u32,
    generation: u32,
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

/// A table whose places are used again, each time under another generation.
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    vacant: Vec<u32>,
}

struct Place<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), vacant: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> Handle {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, value: None });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.value = Some(value);
        Handle { index, generation: place.generation }
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<&T> {
        let place = self.places.get(handle.index as usize)?;
        place.value.as_ref().filter(|_| place.generation == handle.generation)
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let place = self.places.get_mut(handle.index as usize)?;
        place.value.as_mut().filter(|_| place.generation == handle.generation)
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Option<T> {
        let place = self.places.get_mut(handle.index as usize)?;
        if place.generation != handle.generation {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.vacant.push(handle.index);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    pub(crate) fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            place.value.as_ref()?;
            Some(Handle { index: index as u32, generation: place.generation })
        })
    }
}

#[cfg(test)]
impl Handle {
    pub(crate) fn for_test(index: u32) -> Self {
        Self { index, generation: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_does_not_name_the_connection_that_took_its_place() {
        let mut slab = Slab::new();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");

        assert_ne!(first, second);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"second"));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn handles_lists_what_is_there() {
        let mut slab = Slab::new();
        let a = slab.insert('a');
        let b = slab.insert('b');
        slab.remove(a);
        assert_eq!(slab.handles().collect::<Vec<_>>(), [b]);
    }
}
