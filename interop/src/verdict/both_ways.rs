//! Bulk data in both directions at the same time.

use std::collections::BTreeSet;
use std::time::Duration;

use tack_tap::Direction;

use super::Evidence;
use crate::wire::ConnectionSeen;

/// The share of the shorter direction's time in which both directions carry data, at least.
const LEAST_OVERLAP: f64 = 0.5;
/// The time is divided into turns of that length. A sender that has data and is not held back sends
/// in each of them: it is longer than a round trip of the link.
const TURN: Duration = Duration::from_millis(50);

/// New data of both ends was sent in the same turns.
pub fn overlapped(evidence: &Evidence) -> Result<String, String> {
    let [connection] = &evidence.seen.connections[..] else {
        return Err(format!("there were {} connections", evidence.seen.connections.len()));
    };
    let up = Span::of(connection, Direction::ToServer);
    let down = Span::of(connection, Direction::ToClient);
    let (Some(up), Some(down)) = (up, down) else {
        return Err("one end sent no data".to_owned());
    };
    let both = up.turns.intersection(&down.turns).count();
    let shorter = up.length_in_turns().min(down.length_in_turns());
    let seconds = |turns: usize| turns as f64 * TURN.as_secs_f64();
    let figures = format!(
        "{:.2} Mbit/s to the server and {:.2} Mbit/s to the client",
        up.mbps(),
        down.mbps()
    );
    if (both as f64) < LEAST_OVERLAP * shorter as f64 {
        return Err(format!(
            "the directions carried data together for {:.2} s, and the shorter one took {:.2} s: \
             {figures}",
            seconds(both),
            seconds(shorter)
        ));
    }
    Ok(format!("{figures}, together for {:.2} s", seconds(both)))
}

/// The time in which an end sent new data.
struct Span {
    first: Duration,
    last: Duration,
    bytes: u64,
    /// The numbers of the turns in which it did.
    turns: BTreeSet<u128>,
}

impl Span {
    fn of(connection: &ConnectionSeen, direction: Direction) -> Option<Self> {
        let sent = || connection.progress.iter().filter(|new| new.direction == direction);
        // A request is data too: the bulk begins after it.
        let bulk = || sent().filter(|new| new.new_bytes > 500).map(|new| new.at);
        let (first, last) = (bulk().min()?, bulk().max()?);
        let turns = bulk().map(|at| at.as_nanos() / TURN.as_nanos()).collect();
        Some(Self { first, last, turns, bytes: sent().map(|new| new.new_bytes).sum() })
    }

    /// From its first turn to its last.
    fn length_in_turns(&self) -> usize {
        let ends = self.turns.first().zip(self.turns.last());
        ends.map_or(0, |(first, last)| (last - first + 1) as usize)
    }

    const fn length(&self) -> Duration {
        self.last.saturating_sub(self.first)
    }

    fn mbps(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.length().as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::tests::{PLAIN, good};
    use crate::wire::Progress;

    /// Each sender sends a packet at the first of these times and, every so often, until the
    /// second one.
    fn with(spans: &[(Direction, u64, u64, usize)]) -> Result<String, String> {
        let mut evidence = good(PLAIN);
        for &(direction, first, last, every) in spans {
            for at in (first..last).step_by(every) {
                let at = Duration::from_millis(at);
                let progress = Progress { at, direction, new_bytes: 1000 };
                evidence.seen.connections[0].progress.push(progress);
            }
        }
        overlapped(&evidence)
    }

    #[test]
    fn both_ends_send_at_the_same_time() {
        let (up, down) = (Direction::ToServer, Direction::ToClient);
        let note = with(&[(up, 0, 2000, 10), (down, 500, 1500, 10)]).unwrap();
        assert!(note.ends_with("together for 1.00 s"), "{note}");
        assert!(with(&[(up, 0, 1000, 10), (down, 500, 1500, 10)]).is_ok());
        let apart = with(&[(up, 0, 1000, 10), (down, 550, 1550, 10)]).unwrap_err();
        assert!(apart.contains("together for 0.45 s"), "{apart}");
        assert_eq!(with(&[(up, 0, 1000, 10)]), Err("one end sent no data".to_owned()));
    }

    #[test]
    fn a_direction_that_waits_for_the_other_to_end_does_not_send_with_it() {
        let (up, down) = (Direction::ToServer, Direction::ToClient);
        let starved = with(&[(up, 0, 5001, 5000), (down, 0, 5000, 10)]).unwrap_err();
        assert!(starved.contains("together for 0.05 s"), "{starved}");
        let in_turn = [(up, 0, 5001, 5000), (up, 5000, 8000, 10), (down, 0, 5000, 10)];
        assert!(with(&in_turn).is_err());
    }
}
