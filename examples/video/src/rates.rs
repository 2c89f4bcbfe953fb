//! Bit rates as people write them.

use anyhow::{Context, Result, ensure};

/// The bit rates that media are made in, bits per second.
pub const DEFAULT: [u64; 4] = [400_000, 1_000_000, 2_500_000, 6_000_000];

const LOWEST: u64 = 100_000;
const HIGHEST: u64 = 200_000_000;
/// As many renditions as a player could tell apart.
const MOST: usize = 16;

/// Reads `400k,1M,2.5M`: sorted, without doubles.
pub fn parse_list(text: &str) -> Result<Vec<u64>> {
    let mut rates = text.split(',').map(parse).collect::<Result<Vec<_>>>()?;
    rates.sort_unstable();
    rates.dedup();
    ensure!((1..=MOST).contains(&rates.len()), "{} bit rates; 1 to {MOST}", rates.len());
    Ok(rates)
}

/// Reads `400k`, `2.5M` or `750000`.
pub fn parse(text: &str) -> Result<u64> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |number| (number, 1e6)),
    };
    let number: f64 =
        number.parse().with_context(|| format!("{text}: a bit rate such as 400k or 2.5M"))?;
    let rate = (number * unit).round();
    ensure!(
        (LOWEST as f64..=HIGHEST as f64).contains(&rate),
        "{text}: a bit rate from 100k to 200M"
    );
    Ok(rate as u64)
}

/// A bit rate in three digits, as [`parse`] reads it.
pub fn name(bits_per_second: u64) -> String {
    let (unit, name) = if bits_per_second >= 1_000_000 { (1e6, "M") } else { (1e3, "k") };
    let number = bits_per_second as f64 / unit;
    let number = match number {
        1e2.. => number.round(),
        1e1.. => (number * 10.0).round() / 10.0,
        _ => (number * 100.0).round() / 100.0,
    };
    format!("{number}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_rates_are_read_as_they_are_named() {
        assert_eq!(parse_list("6M,400k, 2.5M,400k").unwrap(), [400_000, 2_500_000, 6_000_000]);
        for rate in DEFAULT {
            assert_eq!(parse(&name(rate)).unwrap(), rate);
        }
        assert_eq!(name(510_400), "510k");
        assert_eq!(name(12_345_678), "12.3M");
        for wrong in ["", "x", "-1M", "1", "1e9M", "nan", "400k,,1M"] {
            assert!(parse_list(wrong).is_err(), "{wrong}");
        }
    }
}
