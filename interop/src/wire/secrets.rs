//! Secrets from a key log in the format of SSLKEYLOGFILE.

/// The first secret of that label.
pub fn secret(key_log: &str, label: &str) -> Option<Vec<u8>> {
    key_log.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let found = fields.next() == Some(label);
        let digits = fields.nth(1).filter(|_| found)?;
        let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        (0..digits.len()).step_by(2).map(byte).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_secret_of_a_label_counts() {
        let log = "# comment\nA 00 01fe\nB 00 zz\nB 00 c0\nB 00 c1\nC 00\n";
        assert_eq!(secret(log, "A"), Some(vec![0x01, 0xfe]));
        assert_eq!(secret(log, "B"), Some(vec![0xc0]));
        assert_eq!(secret(log, "C"), None);
        assert_eq!(secret(log, "D"), None);
    }
}
