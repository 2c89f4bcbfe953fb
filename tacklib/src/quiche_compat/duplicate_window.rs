//! Packets that quiche takes for duplicates.
//!
//! What: the span of packet numbers that quiche remembers. Why: what is older is a duplicate to it and
//! dropped, so the layer must neither record nor acknowledge it. Upstream: `PktNumWindow` of quiche 0.30
//! holds 127 numbers below the largest; nothing tells that a packet was dropped for it. To delete: when
//! quiche remembers received numbers without that limit.

/// Numbers that quiche remembers below the largest received.
const QUICHE_WINDOW: u64 = 127;

/// Whether quiche drops packet `pn` without looking, where `largest` was received.
pub fn is_duplicate_to_quiche(pn: u64, largest: u64) -> bool {
    pn + QUICHE_WINDOW < largest
}
