//! Secrets from a key log in the format of SSLKEYLOGFILE.

/// The secret of that label and of the connection whose client began with that random.
pub fn secret_of(key_log: &str, label: &str, random: &[u8]) -> Option<Vec<u8>> {
    lines(key_log, label)
        .find(|(of, _)| from_hex(of).as_deref() == Some(random))
        .and_then(|(_, secret)| from_hex(secret))
}

/// All lines of that connection.
pub fn lines_of<'log>(key_log: &'log str, random: &[u8]) -> impl Iterator<Item = &'log str> {
    key_log.lines().filter(move |line| {
        line.split_whitespace().nth(1).and_then(from_hex).as_deref() == Some(random)
    })
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
    fn a_connection_has_the_secret_of_its_own() {
        let log = "A 00 01\nA ff 02\nA zz 03\n";
        assert_eq!(secret_of(log, "A", &[0xff]), Some(vec![2]));
        assert_eq!(secret_of(log, "A", &[0]), Some(vec![1]));
        assert_eq!(secret_of(log, "B", &[0]), None);
        assert_eq!(lines_of(log, &[0xff]).collect::<Vec<_>>(), ["A ff 02"]);
    }
}
