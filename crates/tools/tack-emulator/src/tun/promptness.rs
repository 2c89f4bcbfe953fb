//! Threads that must not wait for others.

use std::num::NonZeroU64;

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// How a thread ranks among those that go before all ordinary threads.
#[derive(Clone, Copy)]
pub(crate) enum Rank {
    /// The link: no program at its ends may make it late.
    Link,
    /// An end of a connection: a receiver that another program keeps from running holds back
    /// acknowledgements, and that would count as TCP's doing.
    End,
}

impl Rank {
    /// Place in the range of real-time priorities, in per cent: modest among other programs of
    /// this kind.
    const fn percent(self) -> u8 {
        match self {
            Self::Link => 10,
            Self::End => 5,
        }
    }
}

/// Asks the kernel to wake the calling thread on time and before all ordinary threads; says
/// whether it got the priority. Without, the thread is merely later at times.
///
/// A thread that never sleeps, because the link is more than the machine can do, still leaves a
/// share to others: Linux throttles real-time threads (sched(7)).
pub(crate) fn ask_for_promptness(rank: Rank) -> bool {
    // Timers may be late by 50 µs otherwise, to wake fewer times.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let real_time = ThreadPriorityValue::try_from(rank.percent()).is_ok_and(|percent| {
        let priority = ThreadPriority::Crossplatform(percent);
        set_thread_priority_and_policy(thread_native_id(), priority, fifo).is_ok()
    });
    if !real_time {
        let _ = rustix::process::nice(-20);
    }
    real_time
}
