//! Bulk data in both directions at the same time.

use std::time::Duration;

use tack_tap::Direction;

use super::Evidence;
use crate::wire::ConnectionSeen;

/// The share of the shorter direction's time in which both directions carry data, at least.
const LEAST_OVERLAP: f64 = 0.5;

/// New data of both ends was sent at the same time.
pub fn overlapped(evidence: &Evidence) -> Result<String, String> {
    let [connection] = &evidence.seen.connections[..] else {
        return Err(format!("there were {} connections", evidence.seen.connections.len()));
    };
    let up = Span::of(connection, Direction::ToServer);
    let down = Span::of(connection, Direction::ToClient);
    let (Some(up), Some(down)) = (up, down) else {
        return Err("one end sent no data".to_owned());
    };
    let both = up.last.min(down.last).saturating_sub(up.first.max(down.first));
    let shorter = up.length().min(down.length());
    if both.as_secs_f64() < LEAST_OVERLAP * shorter.as_secs_f64() {
        return Err(format!(
            "the directions carried data together for {:.2} s, and the shorter one for {:.2} s",
            both.as_secs_f64(),
            shorter.as_secs_f64()
        ));
    }
    Ok(format!(
        "{:.2} Mbit/s to the server and {:.2} Mbit/s to the client, together for {:.2} s",
        up.mbps(),
        down.mbps(),
        both.as_secs_f64()
    ))
}

/// The time in which an end sent new data.
struct Span {
    first: Duration,
    last: Duration,
    bytes: u64,
}

impl Span {
    fn of(connection: &ConnectionSeen, direction: Direction) -> Option<Self> {
        let sent = || connection.progress.iter().filter(|new| new.direction == direction);
        // A request is data too: the bulk begins after it.
        let mut bulk = sent().filter(|new| new.new_bytes > 500);
        let first = bulk.next()?.at;
        let last = bulk.next_back()?.at;
        Some(Self { first, last, bytes: sent().map(|new| new.new_bytes).sum() })
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

    fn with(spans: &[(Direction, u64, u64)]) -> Result<String, String> {
        let mut evidence = good(PLAIN);
        for &(direction, first, last) in spans {
            for at in [first, last] {
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
        let note = with(&[(up, 0, 2000), (down, 500, 1500)]).unwrap();
        assert!(note.ends_with("together for 1.00 s"), "{note}");
        assert!(with(&[(up, 0, 1000), (down, 500, 1500)]).is_ok());
        let apart = with(&[(up, 0, 1000), (down, 501, 1501)]).unwrap_err();
        assert!(apart.contains("together for 0.50 s"), "{apart}");
        assert_eq!(with(&[(up, 0, 1000)]), Err("one end sent no data".to_owned()));
    }
}
