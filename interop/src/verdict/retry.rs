//! The server asks for a proof of address (RFC 9000 section 8.1.2).

use crate::wire::Observation;

/// Each connection began with a token, and a Retry was on the wire. A client may present the token
/// of an earlier NEW_TOKEN frame on a later connection, which spares it the Retry.
pub fn were_answered(seen: &Observation) -> Result<(), String> {
    if seen.retries() == 0 {
        return Err("the server sent no Retry".to_owned());
    }
    if seen.connections.iter().any(|connection| connection.initials_with_token == 0) {
        return Err("the client sent no Initial with a token".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::tests::{PLAIN, good};

    #[test]
    fn a_retry_is_answered_with_a_token_on_every_connection() {
        let mut seen = good(PLAIN).seen;
        assert_eq!(were_answered(&seen), Err("the server sent no Retry".to_owned()));
        seen.connections[0].retries = 1;
        assert!(were_answered(&seen).unwrap_err().contains("token"));
        seen.connections[0].initials_with_token = 1;
        assert_eq!(were_answered(&seen), Ok(()));
        let mut second = seen.connections[0].clone();
        second.retries = 0;
        seen.connections.push(second.clone());
        assert_eq!(were_answered(&seen), Ok(()), "with the token of a NEW_TOKEN frame");
        second.initials_with_token = 0;
        seen.connections[1] = second;
        assert!(were_answered(&seen).is_err());
    }
}
