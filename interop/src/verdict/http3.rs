//! HTTP/3 was spoken, not something else over the same files.

use crate::contract::Protocol;
use crate::wire::Observation;

pub fn was_spoken(seen: &Observation) -> Result<(), String> {
    match seen.protocol.as_deref() {
        Some(spoken) if spoken == Protocol::H3.name() => Ok(()),
        Some(spoken) => Err(format!("the server chose {spoken:?} instead of HTTP/3")),
        None => Err("the protocol that the server chose could not be read".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http3_is_what_the_server_chose_and_nothing_else() {
        let seen = |protocol: Option<&str>| Observation {
            protocol: protocol.map(str::to_owned),
            ..Observation::default()
        };
        assert_eq!(was_spoken(&seen(Some("h3"))), Ok(()));
        assert!(was_spoken(&seen(Some("hq-interop"))).unwrap_err().contains("hq-interop"));
        assert!(was_spoken(&seen(None)).unwrap_err().contains("could not be read"));
    }
}
