//! Events of a simulation in virtual time, in the order in which they are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// What is due, and one wake-up.
#[derive(Debug)]
pub struct EventQueue<E> {
    /// `None` is a wake-up. Events that are due together leave in the order of their entry.
    events: BinaryHeap<Reverse<(Instant, u64, Option<E>)>>,
    entered: u64,
    next_wake: Option<Instant>,
}

impl<E: Ord> EventQueue<E> {
    pub fn new() -> Self {
        Self { events: BinaryHeap::new(), entered: 0, next_wake: None }
    }

    /// An event is due at `at`.
    pub fn schedule(&mut self, at: Instant, event: E) {
        self.enter(at, Some(event));
    }

    /// Wakes the simulation at `at`, unless something wakes it before: one wake-up is enough, if it
    /// is the earliest.
    pub fn wake_at(&mut self, at: Instant) {
        if self.next_wake.is_none_or(|next| at < next) {
            self.next_wake = Some(at);
            self.enter(at, None);
        }
    }

    /// What is due next, and when; `None` for a wake-up. One that an earlier one has replaced is
    /// left out.
    pub fn pop(&mut self) -> Option<(Instant, Option<E>)> {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if event.is_none() {
                if self.next_wake != Some(at) {
                    continue;
                }
                self.next_wake = None;
            }
            return Some((at, event));
        }
        None
    }

    fn enter(&mut self, at: Instant, event: Option<E>) {
        self.entered += 1;
        self.events.push(Reverse((at, self.entered, event)));
    }
}
