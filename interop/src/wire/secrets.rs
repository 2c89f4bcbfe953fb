//! Secrets from a key log in the format of SSLKEYLOGFILE.

/// The first secret of that label.
pub fn secret(key_log: &str, label: &str) -> Option<Vec<u8>> {
    lines(key_log, label).find_map(|(_, secret)| from_hex(secret))
}

/// The secret of that label and of the connection whose client began with that random.
pub fn secret_of(key_log: &str, label: &str, random: &[u8]) -> Option<Vec<u8>> {
    lines(key_log, label)
        .find(|(of, _)| from_hex(of).as_deref() == Some(random))
        .and_then(|(_, secret)| from_hex(secret))
}

/// Random and secret of the lines with that label.
fn lines<'log>(
    key_log: &'log str,
    label: &str,
) -> impl Iterator<Item = (&'log str, &'log str)> {
    key_log.lines().filter_map(move |line| {
        let mut fields = line.split_whitespace();
        let found = fields.next() == Some(label);
        fields.next().zip(fields.next()).filter(|_| found)
    })
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
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

    #[test]
    fn a_connection_has_the_secret_of_its_own() {
        let log = "A 00 01\nA ff 02\nA zz 03\n";
        assert_eq!(secret_of(log, "A", &[0xff]), Some(vec![2]));
        assert_eq!(secret_of(log, "A", &[0]), Some(vec![1]));
        assert_eq!(secret_of(log, "B", &[0]), None);
    }
}
