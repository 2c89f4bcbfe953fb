//! The table that handles point into.

use crate::handle::Handle;

/// A table whose slots are used again, each time under another generation.
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    vacant: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), vacant: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> Handle {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        Handle { index, generation: slot.generation }
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<&T> {
        let slot = self.slots.get(handle.index as usize)?;
        slot.value.as_ref().filter(|_| slot.generation == handle.generation)
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        slot.value.as_mut().filter(|_| slot.generation == handle.generation)
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Option<T> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        if slot.generation != handle.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.vacant.push(handle.index);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    pub(crate) fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            slot.value.as_ref()?;
            Some(Handle { index: index as u32, generation: slot.generation })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_does_not_name_the_connection_that_took_its_slot() {
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
