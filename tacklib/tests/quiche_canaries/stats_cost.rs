//! quiche's `stats` adds up the buffers of all streams, so the layer must not call it for each packet.

use crate::harness::assert_needed;
use crate::quiche_source::*;

#[test]
fn the_statistics_are_checked_over_all_streams() {
    let source = quiche_source();
    let body = |file: &str, signature: &str| {
        let text = read(&source.join(file));
        let body = text.split(signature).nth(1).unwrap_or_default();
        body.split("\n    }\n").next().unwrap_or_default().to_owned()
    };
    let checks = body("lib.rs", "pub fn stats(&self) -> Stats {")
        .contains("tx_buffered_is_consistent")
        && body("stream/mod.rs", "fn tx_buffered_is_consistent(")
            .contains("tx_buffered_actual");
    let adds_up = body("stream/mod.rs", "fn tx_buffered_actual(").contains(".sum");
    assert_needed(checks && adds_up, "quiche_counters.rs");
}
