//! Priorities: the trait's orders, of which the highest goes first, as urgencies of RFC 9218's kind, of which
//! quiche has 256 and serves the lowest first.

/// The urgency of the order zero, which quiche gives to a stream without one.
const MIDDLE: i32 = 127;

/// Orders up to here have an urgency each.
const EXACT: u32 = 64;

/// Steps for each doubling of larger ones.
const STEPS: u32 = 2;

/// The urgency of an order: a higher order never has a higher one.
pub(crate) fn urgency(order: i32) -> u8 {
    let size = order.unsigned_abs();
    let distance = if size <= EXACT {
        size
    } else {
        let power = size.ilog2();
        // Whether it lies in the upper half of what is up to the next power of two.
        let half = (size >> (power - 1)) & 1;
        EXACT + 1 + (power - EXACT.ilog2()) * STEPS + half
    };
    let distance = distance.cast_signed();
    let urgency = if order > 0 { MIDDLE - distance } else { MIDDLE + distance };
    u8::try_from(urgency.clamp(0, 255)).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_order_is_at_least_as_urgent() {
        let powers = (0..31).flat_map(|power| [-1, 0, 1].map(|near| (1_i32 << power) + near));
        let mut orders: Vec<i32> = powers.flat_map(|order| [order, -order]).collect();
        orders.extend(-300..=300);
        orders.extend([i32::MIN, i32::MAX]);
        orders.sort_unstable();
        assert!(orders.windows(2).all(|pair| urgency(pair[0]) >= urgency(pair[1])));
    }

    #[test]
    fn small_orders_are_told_apart_and_large_ones_by_their_size() {
        assert!((-64..64).all(|order| urgency(order) > urgency(order + 1)));
        assert_eq!(urgency(0), 127);
        assert_eq!([64, 65, 96, 128, 192, i32::MAX].map(urgency), [63, 62, 61, 60, 59, 13]);
        assert_eq!(urgency(i32::MIN), 242);
        let sizes = (7..31).map(|power| urgency(1 << power)).collect::<Vec<_>>();
        assert!(sizes.windows(2).all(|pair| pair[0] > pair[1]), "{sizes:?}");
    }
}
