//! Numbers with units, as users write and read them.

use std::time::{SystemTime, UNIX_EPOCH};

use tack_endpoint::MAX_WORKERS;

/// Parses a number of threads; 0 and `auto` stand for one for each processor, where several can share a port.
pub fn parse_workers(text: &str) -> Result<usize, String> {
    let number = match text {
        "auto" => 0,
        _ => text.parse().map_err(|_| "expected a number or auto".to_owned())?,
    };
    match number {
        0 if !cfg!(target_os = "linux") => Ok(1),
        0 => Ok(std::thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS)),
        1..=MAX_WORKERS => Ok(number),
        _ => Err(format!("there can be {MAX_WORKERS} at most")),
    }
}

/// Reads a number of bytes per second: digits, optionally a decimal point, optionally one of
/// k, M, G (powers of 1000) or Ki, Mi, Gi (powers of 1024).
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let scale: f64 = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("unknown unit \"{unit}\"; use k, M, G, Ki, Mi or Gi")),
    };
    let number: f64 =
        number.parse().map_err(|_| "expected a number, such as 10M".to_owned())?;
    let rate = number * scale;
    if (1000.0..1e15).contains(&rate) {
        Ok(rate as u64)
    } else {
        Err("expected between 1000 bytes (1k) and 1000 TB per second".to_owned())
    }
}

/// A number of bytes with three significant digits.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", units[unit])
}

/// A rate, given in bytes per second, in bits per second.
pub fn bit_rate(bytes_per_second: f64) -> String {
    let megabits = bytes_per_second * 8.0 / 1e6;
    if megabits < 1.0 {
        format!("{:.0} kbit/s", megabits * 1e3)
    } else if megabits < 1000.0 {
        format!("{megabits:.1} Mbit/s")
    } else {
        format!("{:.2} Gbit/s", megabits / 1e3)
    }
}

/// A time in UTC, as RFC 3339 writes it, in whole seconds.
pub fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(seconds).ok().and_then(timestamp_at).unwrap_or_default()
}

/// The same for seconds since 1970; `None` outside the years 1 to 9999, which RFC 3339 can't write.
pub fn timestamp_at(seconds: i64) -> Option<String> {
    if !(-62_135_596_800..=253_402_300_799).contains(&seconds) {
        return None;
    }
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The calendar below begins in March of the year 0.
    let (year, month, day) = civil(u64::try_from(days + 719_468).ok()?);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

/// The date of a day since 1 March of the year 0, in the Gregorian calendar. Years begin in March
/// here, so that the leap day is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// A duration, given in seconds, as hours, minutes and seconds.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round().min(359_999.0) as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_are_read_with_decimal_and_binary_units() {
        assert_eq!(parse_rate("2500"), Ok(2500));
        assert_eq!(parse_rate("1.5M"), Ok(1_500_000));
        assert_eq!(parse_rate("64Ki"), Ok(65_536));
        for wrong in ["", "M", "10Mbit", "-1", "1", "1e9", "1.2.3", "99999999G"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_dates_in_utc() {
        let at = |seconds| timestamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(at(1_798_761_599), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn any_number_of_seconds_is_a_date_or_none() {
        let at = |seconds| timestamp_at(seconds).unwrap_or_default();
        assert_eq!(at(-1), "1969-12-31T23:59:59Z");
        assert_eq!(at(-62_135_596_800), "0001-01-01T00:00:00Z");
        assert_eq!(at(253_402_300_799), "9999-12-31T23:59:59Z");
        for seconds in [i64::MIN, -62_135_596_801, 253_402_300_800, i64::MAX] {
            assert_eq!(timestamp_at(seconds), None);
        }
    }

    #[test]
    fn sizes_rates_and_durations_are_short() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_000_000), "1.00 MB");
        assert_eq!(bytes(123_456_789), "123 MB");
        assert_eq!(bytes(u64::MAX), "18.4 EB");
        assert_eq!(bit_rate(6_250_000.0), "50.0 Mbit/s");
        assert_eq!(bit_rate(1000.0), "8 kbit/s");
        assert_eq!(duration(3725.4), "1:02:05");
        assert_eq!(duration(f64::INFINITY), "99:59:59");
    }
}
