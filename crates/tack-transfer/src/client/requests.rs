//! Requests about many things, some at a time, and answers to them by number.

use crate::protocol::{MAX_FILES, TransferError};

/// Bytes of JSON after which the next request begins; the longest edit fits behind it.
const MAX_JSON: usize = 8 * 1024;

/// What the next request is about. `json_len` is about how much of it each takes.
pub(super) fn next_request<T>(
    left: &mut impl Iterator<Item = T>,
    json_len: impl Fn(&T) -> usize,
) -> Vec<T> {
    let (mut request, mut json) = (Vec::new(), 0);
    while json < MAX_JSON
        && request.len() < MAX_FILES
        && let Some(next) = left.next()
    {
        json += json_len(&next);
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

    #[test]
    fn a_request_ends_where_its_json_or_its_number_of_files_does() {
        let mut left = 0..2 * MAX_FILES;
        assert_eq!(next_request(&mut left, |_| 0).len(), MAX_FILES);
        assert_eq!(next_request(&mut left, |_| MAX_JSON / 2).len(), 2);
        assert_eq!(next_request(&mut left, |_| 3 * MAX_JSON).len(), 1);
        assert_eq!(next_request(&mut (0..0), |_| 0), Vec::<usize>::new());
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
