//! Requests about many things, some at a time, and answers to them by number.

use std::iter::Peekable;

use crate::protocol::{MAX_CONTROL, MAX_FILES, TransferError};

/// Most bytes of JSON that what a request is about takes, unless a single one takes more; beside it, a policy and the
/// names of fields fit into a message.
const MAX_JSON: usize = MAX_CONTROL - 1024;

/// What the next request is about: as much as fits. `json_len` is what each takes as JSON.
pub(super) fn next_request<T>(
    left: &mut Peekable<impl Iterator<Item = T>>,
    json_len: impl Fn(&T) -> usize,
) -> Vec<T> {
    let (mut request, mut json) = (Vec::new(), 0);
    while request.len() < MAX_FILES {
        let is_first = request.is_empty();
        let fits = |next: &T| {
            // With a comma.
            json += json_len(next) + 1;
            is_first || json <= MAX_JSON
        };
        let Some(next) = left.next_if(fits) else { break };
        request.push(next);
    }
    request
}

/// What was asked for and has no answer yet.
pub(super) struct Asked<T>(Vec<Option<T>>);

impl<T> Asked<T> {
    /// Nothing of a request has been answered.
    pub(super) fn new(request: Vec<T>) -> Self {
        Self(request.into_iter().map(Some).collect())
    }

    /// What the answer with this number is to. Each has one answer, so that they come to an end.
    pub(super) fn take(&mut self, number: u32) -> Result<T, TransferError> {
        let asked = self.0.get_mut(number as usize).and_then(Option::take);
        asked.ok_or_else(|| {
            let text = format!("it answers {number}, which was not asked, or twice");
            TransferError::Protocol(text)
        })
    }

    /// Whether everything has an answer.
    pub(super) fn is_answered(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many each request is about, if each of `count` things takes so many bytes.
    fn requests(count: usize, json: usize) -> Vec<usize> {
        let mut left = (0..count).peekable();
        let mut requests = Vec::new();
        while left.peek().is_some() {
            requests.push(next_request(&mut left, |_| json).len());
        }
        requests
    }

    #[test]
    fn a_request_takes_as_much_as_fits_and_at_least_one_thing() {
        assert_eq!(requests(2 * MAX_FILES, 0), [MAX_FILES; 2]);
        assert_eq!(requests(2000, 230).len(), 2000usize.div_ceil(MAX_FILES));
        assert_eq!(requests(5, MAX_JSON / 2), [1; 5], "with commas, two are too much");
        assert_eq!(requests(5, MAX_JSON / 2 - 1), [2, 2, 1]);
        assert_eq!(requests(2, 3 * MAX_JSON), [1, 1]);
        assert_eq!(requests(0, 0), [0; 0]);
    }

    #[test]
    fn answers_to_what_was_not_asked_and_second_ones_are_refused() {
        let mut asked = Asked::new(vec!["a", "b"]);
        assert_eq!(asked.take(1).unwrap(), "b");
        for number in [1, 2] {
            assert!(matches!(asked.take(number), Err(TransferError::Protocol(_))), "{number}");
        }
        assert!(!asked.is_answered());
        assert_eq!(asked.take(0).unwrap(), "a");
        assert!(asked.is_answered());
    }
}
