//! Independent runs on all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs `work` on each of `items`, on as many threads as there are cores. The results are in
/// the order of the items.
pub fn run_all<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let take_turns = || {
        while let Some((index, item)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            items.get(index).map(|item| (index, item))
        } {
            let result = work(item);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..cores.min(items.len()) {
            scope.spawn(take_turns);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items_whoever_is_first() {
        let items: Vec<u64> = (0..100).collect();
        let results = run_all(&items, |item| {
            thread::sleep(std::time::Duration::from_micros(item * 37 % 100));
            item * 2
        });
        assert!(results.iter().zip(&items).all(|(result, item)| *result == item * 2));
        assert_eq!(results.len(), items.len());
        assert!(run_all(&[], |item: &u64| *item).is_empty());
    }
}
