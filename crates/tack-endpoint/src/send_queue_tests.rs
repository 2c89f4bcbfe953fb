#![expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]

use super::*;

/// Records what is sent, and fails as told.
#[derive(Default)]
struct FakeSink {
    max_segments: usize,
    failures: VecDeque<SendError>,
    /// Refuse larger datagrams, and bursts whose segments are larger.
    mtu: Option<usize>,
    sent: Vec<Vec<Vec<u8>>>,
}

impl Sink for FakeSink {
    fn max_segments(&self) -> usize {
        self.max_segments
    }

    fn send(&mut self, burst: &Burst<'_>) -> Result<(), SendError> {
        if self.mtu.is_some_and(|mtu| burst.segment > mtu) {
            return Err(SendError::TooLarge);
        }
        if let Some(error) = self.failures.pop_front() {
            if error == SendError::Offload {
                self.max_segments = 1;
            }
            return Err(error);
        }
        let datagrams: Vec<_> =
            burst.contents.chunks(burst.segment).map(<[u8]>::to_vec).collect();
        assert_eq!(datagrams.len(), burst.count);
        self.sent.push(datagrams);
        Ok(())
    }
}

impl FakeSink {
    fn new() -> Self {
        Self { max_segments: 64, ..Self::default() }
    }

    /// The datagrams of each send, told apart by their first byte.
    fn marks(&self) -> Vec<Vec<u8>> {
        self.sent
            .iter()
            .map(|burst| burst.iter().map(|datagram| datagram[0]).collect())
            .collect()
    }
}

struct Setup {
    queue: SendQueue,
    pool: BufferPool,
    sink: FakeSink,
    stats: EndpointStats,
    start: Instant,
    /// The codepoint of what is pushed.
    ecn: EcnCodepoint,
}

impl Setup {
    fn new() -> Self {
        Self {
            queue: SendQueue::default(),
            pool: BufferPool::default(),
            sink: FakeSink::new(),
            stats: EndpointStats::default(),
            start: Instant::now(),
            ecn: EcnCodepoint::NotEct,
        }
    }

    fn at(&self, micros: u64) -> Instant {
        self.start + Duration::from_micros(micros)
    }

    fn push_to(&mut self, port: u16, mark: u8, len: usize, at_micros: u64) {
        let meta = Meta {
            ecn: self.ecn,
            from: SocketAddr::from(([127, 0, 0, 1], 1)),
            to: SocketAddr::from(([127, 0, 0, 1], port)),
            at: self.at(at_micros),
        };
        self.queue.room(&mut self.pool).unwrap()[..len].fill(mark);
        self.queue.commit(len, meta);
    }

    fn push(&mut self, mark: u8, len: usize, at_micros: u64) {
        self.push_to(2, mark, len, at_micros);
    }

    fn flush(&mut self, at_micros: u64) -> Flush {
        let now = self.at(at_micros);
        self.queue.flush(now, &mut self.sink, &mut self.stats)
    }
}

#[test]
fn a_packet_never_leaves_before_its_release_time() {
    let mut s = Setup::new();
    for n in 0..10 {
        s.push(n, 1000, 1000 * u64::from(n));
    }
    assert_eq!(s.flush(2999), Flush::Complete);
    assert_eq!(s.sink.marks(), [[0, 1, 2]]);
    assert_eq!(s.flush(3000), Flush::Complete);
    assert_eq!(s.sink.marks(), [vec![0, 1, 2], vec![3]]);
}

#[test]
fn packets_of_one_codepoint_share_a_burst() {
    let mut s = Setup::new();
    for (mark, ecn) in (0..).zip([EcnCodepoint::Ect1, EcnCodepoint::Ect1, EcnCodepoint::NotEct])
    {
        s.ecn = ecn;
        s.push(mark, 1000, 0);
    }
    s.flush(0);
    assert_eq!(s.sink.marks(), [vec![0, 1], vec![2]]);
}

#[test]
fn packets_due_close_together_share_one_wakeup_and_one_burst() {
    let mut s = Setup::new();
    for (mark, at) in [(0, 500), (1, 600), (2, 740), (3, 900)] {
        s.push(mark, 1000, at);
    }
    assert_eq!(
        s.queue.next_release(),
        Some(s.at(740)),
        "at most the granularity after the first"
    );
    s.flush(740);
    assert_eq!(s.sink.marks(), [[0, 1, 2]]);
    assert_eq!(s.queue.next_release(), Some(s.at(900)), "a lone packet leaves on time");
}

#[test]
fn packets_are_collected_about_a_millisecond_ahead() {
    let mut s = Setup::new();
    assert!(!s.queue.is_ahead(s.start));
    s.push(0, 1000, 1000);
    assert!(!s.queue.is_ahead(s.start));
    s.push(1, 1000, 1001);
    assert!(s.queue.is_ahead(s.start));
    assert!(!s.queue.is_ahead(s.at(1)));
}

#[test]
fn a_burst_ends_at_a_shorter_datagram_and_before_a_larger_one() {
    let mut s = Setup::new();
    for (mark, len) in [(0, 1000), (1, 1000), (2, 400), (3, 400), (4, 400), (5, 1000)] {
        s.push(mark, len, 0);
    }
    s.flush(0);
    assert_eq!(s.sink.marks(), [vec![0, 1, 2], vec![3, 4], vec![5]]);
    assert_eq!(s.sink.sent[0][2].len(), 400);
    assert_eq!(s.stats.gso_segments_max, 3);
    assert_eq!((s.stats.datagrams_out, s.stats.send_calls), (6, 3));
}

#[test]
fn a_lone_larger_datagram_may_be_an_mtu_probe_and_leaves_alone() {
    let mut s = Setup::new();
    s.sink.mtu = Some(1400);
    for (mark, len) in [(0, 1500), (1, 1200), (2, 1200)] {
        s.push(mark, len, 0);
    }
    assert_eq!(s.flush(0), Flush::Complete);
    assert_eq!(s.sink.marks(), [[1, 2]]);
    assert_eq!(s.stats.dropped.too_large, 1);
}

#[test]
fn a_burst_goes_to_one_address() {
    let mut s = Setup::new();
    for (mark, port) in [(0, 2), (1, 2), (2, 3), (3, 2)] {
        s.push_to(port, mark, 1000, 0);
    }
    s.flush(0);
    assert_eq!(s.sink.marks(), [vec![0, 1], vec![2], vec![3]]);
}

#[test]
fn a_burst_fits_one_ip_packet_and_the_number_of_segments() {
    let mut s = Setup::new();
    for mark in 0..60 {
        s.push(mark, 1452, 0);
    }
    s.flush(0);
    let counts: Vec<usize> = s.sink.sent.iter().map(Vec::len).collect();
    assert_eq!(counts, [45, 15]);

    s.sink = FakeSink { max_segments: 16, ..FakeSink::new() };
    for mark in 0..40 {
        s.push(mark, 100, 0);
    }
    s.flush(0);
    let counts: Vec<usize> = s.sink.sent.iter().map(Vec::len).collect();
    assert_eq!(counts, [16, 16, 8]);
}

#[test]
fn a_full_socket_keeps_the_datagrams_and_their_order() {
    for (error, outcome) in
        [(SendError::Full, Flush::Full), (SendError::NoBuffers, Flush::NoBuffers)]
    {
        let mut s = Setup::new();
        for mark in 0..5 {
            s.push(mark, 1000, 0);
        }
        s.sink.failures.push_back(error);
        assert_eq!(s.flush(0), outcome);
        assert!(s.sink.sent.is_empty());
        s.queue.release_buffer(&mut s.pool);
        s.push(5, 1000, 0);

        assert_eq!(s.flush(0), Flush::Complete);
        assert_eq!(s.sink.marks(), [[0, 1, 2, 3, 4, 5]]);
        assert!(
            s.sink.sent[0].iter().all(|datagram| datagram.iter().all(|b| *b == datagram[0]))
        );
        assert_eq!((s.stats.send_blocked, s.stats.datagrams_out), (1, 6));
    }
}

#[test]
fn a_refused_burst_is_sent_one_by_one() {
    let mut s = Setup::new();
    for mark in 0..4 {
        s.push(mark, 1000, 0);
    }
    s.sink.failures.push_back(SendError::Offload);
    assert_eq!(s.flush(0), Flush::Complete);
    assert_eq!(s.sink.marks(), [[0], [1], [2], [3]]);
    assert_eq!(s.stats.dropped.send_failed, 0);
}

#[test]
fn what_the_system_refuses_for_good_is_dropped_and_counted() {
    let mut s = Setup::new();
    for mark in 0..3 {
        s.push(mark, 1000, 0);
    }
    s.sink.failures.push_back(SendError::Failed);
    s.push(3, 1100, 0);
    assert_eq!(s.flush(0), Flush::Complete);
    assert_eq!(s.sink.marks(), [[3]]);
    assert_eq!(s.stats.dropped.send_failed, 3);
}

#[test]
fn an_idle_queue_keeps_no_buffer_and_queues_share_them() {
    let mut s = Setup::new();
    for round in 0..100 {
        let mut other = SendQueue::default();
        assert!(other.room(&mut s.pool).is_some());
        other.release_buffer(&mut s.pool);
        s.push(round, 1000, 0);
        s.flush(0);
        s.queue.release_buffer(&mut s.pool);
        assert_eq!(s.queue.buffer.len(), 0);
        assert_eq!(s.pool.0.len(), 1);
    }
}

#[test]
fn room_is_found_again_while_something_is_always_held() {
    let mut s = Setup::new();
    let mut mark = 0u8;
    s.push(mark, 1400, 0);
    for step in 1..5_000 {
        mark = mark.wrapping_add(1);
        s.push(mark, 1400, step);
        s.flush(step - 1);
    }
    s.flush(5_000);
    let sent: Vec<u8> = s.sink.marks().concat();
    let expected: Vec<u8> = (0..5_000u32).map(|n| n as u8).collect();
    assert_eq!(sent, expected);
}

#[test]
fn packets_that_are_released_early_leave_at_once_and_in_order() {
    let mut s = Setup::new();
    for (mark, at) in [(0, 0), (1, 5_000), (2, 90_000)] {
        s.push(mark, 1000, at);
    }
    s.queue.release_all(s.start);
    assert_eq!(s.flush(0), Flush::Complete);
    assert_eq!(s.sink.marks(), [[0, 1, 2]]);
}

#[test]
fn a_cleared_queue_sends_nothing_and_holds_later_packets_intact() {
    let mut s = Setup::new();
    s.push(0, 1000, 0);
    s.push(1, 1200, 0);
    s.queue.clear();
    assert!(s.queue.is_empty());
    s.push(2, 900, 0);
    assert_eq!(s.flush(0), Flush::Complete);
    assert_eq!(s.sink.marks(), [[2]]);
}

#[test]
fn the_queue_refuses_more_than_one_turn_may_send() {
    let mut s = Setup::new();
    for mark in 0..MAX_QUEUED as u8 {
        s.push(mark, 1500, 0);
    }
    assert!(s.queue.room(&mut s.pool).is_none());
}
