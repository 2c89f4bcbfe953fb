//! The states and the ways between them (draft-ietf-ccwg-bbr-06, section "State Transition
//! Diagram").

use super::drain::Drain;
use super::probe_rtt::ProbeRtt;

/// Where in a cycle of ProbeBW the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeBwPhase {
    /// Sends less than the path carries until what the probe has added has drained.
    Down,
    /// Sends what the path carries.
    Cruise,
    /// Fills the path again, for a round trip, before it probes.
    Refill,
    /// Sends more than the path is known to carry.
    Up,
}

/// A state with what belongs to the stay in it.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Startup,
    Drain(Drain),
    ProbeBw(ProbeBwPhase),
    ProbeRtt(ProbeRtt),
}

/// Why a state follows another that the draft does not let it follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A transition of the draft's diagram.
    Diagram,
    /// What was taken for lost has arrived (section "Handling a Spurious Loss Recovery").
    Undo,
    /// The path stood still (TACK-6.2-7) or has become slower (TACK-6.1-4).
    PathChange,
    /// Data goes over the path again (TACK-5.7-1).
    Resumed,
}

impl State {
    /// Whether data is sent faster than it is known to be delivered.
    pub fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::ProbeBw(ProbeBwPhase::Refill | ProbeBwPhase::Up))
    }

    /// Whether `next` may follow.
    pub fn may_become(self, next: Self, cause: Cause) -> bool {
        use ProbeBwPhase::{Cruise, Down, Refill, Up};
        use State::{Drain, ProbeBw, ProbeRtt, Startup};
        match cause {
            Cause::Diagram => match (self, next) {
                (Startup, Drain(_))
                | (Drain(_), ProbeBw(Down | Cruise))
                | (ProbeBw(Down), ProbeBw(Cruise | Refill))
                | (ProbeBw(Cruise), ProbeBw(Refill))
                | (ProbeBw(Refill), ProbeBw(Up))
                | (ProbeBw(Up), ProbeBw(Down))
                | (ProbeRtt(_), ProbeBw(Cruise) | Startup) => true,
                (from, ProbeRtt(_)) => !matches!(from, ProbeRtt(_)),
                _ => false,
            },
            Cause::Undo => matches!(
                (self, next),
                (Drain(_) | ProbeBw(_), Startup) | (ProbeBw(_), ProbeBw(Refill))
            ),
            Cause::PathChange => matches!((self, next), (Startup | ProbeBw(_), Drain(_))),
            Cause::Resumed => !matches!(self, Startup) && matches!(next, ProbeBw(Cruise)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ProbeBwPhase::{Cruise, Down, Refill, Up};

    fn all() -> Vec<State> {
        let now = crate::test_clock();
        vec![
            State::Startup,
            State::Drain(Drain::after_outage(now, Duration::ZERO)),
            State::ProbeBw(Down),
            State::ProbeBw(Cruise),
            State::ProbeBw(Refill),
            State::ProbeBw(Up),
            State::ProbeRtt(ProbeRtt::new(now)),
        ]
    }

    /// The numbers in [`all`] of the states that may follow.
    fn after(cause: Cause) -> Vec<Vec<usize>> {
        all()
            .iter()
            .map(|from| {
                let may = |to: &State| from.may_become(*to, cause);
                all().iter().enumerate().filter(|(_, to)| may(to)).map(|(at, _)| at).collect()
            })
            .collect()
    }

    #[test]
    fn the_diagram_of_the_draft_is_what_time_and_acknowledgements_may_do() {
        let expected: [&[usize]; 7] =
            [&[1, 6], &[2, 3, 6], &[3, 4, 6], &[4, 6], &[5, 6], &[2, 6], &[0, 3]];
        assert_eq!(after(Cause::Diagram), expected);
    }

    #[test]
    fn other_causes_lead_back_to_where_they_say() {
        let expected: [&[usize]; 7] = [&[], &[0], &[0, 4], &[0, 4], &[0, 4], &[0, 4], &[]];
        assert_eq!(after(Cause::Undo), expected);
        let expected: [&[usize]; 7] = [&[1], &[], &[1], &[1], &[1], &[1], &[]];
        assert_eq!(after(Cause::PathChange), expected);
        let expected: [&[usize]; 7] = [&[], &[3], &[3], &[3], &[3], &[3], &[3]];
        assert_eq!(after(Cause::Resumed), expected);
    }
}
