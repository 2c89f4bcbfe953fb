use proptest::prelude::*;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn config(config_id: u8, server_id: &str, nonce_len: usize, key: Option<&str>) -> QuicLbConfig {
    QuicLbConfig {
        config_id,
        server_id: bytes(server_id),
        nonce_len,
        key: key.map(|key| bytes(key).try_into().unwrap()),
        first_octet_encodes_cid_length: true,
    }
}

#[track_caller]
fn assert_vector(config_id: u8, server_id: &str, nonce: &str, key: Option<&str>, cid: &str) {
    let nonce = bytes(nonce);
    let lb = QuicLb::new(config(config_id, server_id, nonce.len(), key)).unwrap();
    let encoded = lb.encode(&nonce, 0xff).unwrap();
    assert_eq!(encoded, bytes(cid));
    assert_eq!(encoded.len(), lb.cid_len());
    let decoded = lb.decode(&encoded).unwrap();
    assert_eq!((decoded.server_id(), decoded.nonce()), (&bytes(server_id)[..], &nonce[..]));
}

/// Appendix B.1.
#[test]
fn an_id_without_a_key_is_that_of_the_draft() {
    assert_vector(0, "c4605e", "4504cc4f", None, "07c4605e4504cc4f");
}

/// Appendix B.2: four passes over an odd number of octets, one pass, four over a server id that is longer
/// than the nonce, and over the longest id.
#[test]
fn ids_with_a_key_are_those_of_the_draft() {
    let key = Some("8f95f09245765f80256934e50c66207f");
    assert_vector(0, "ed793a", "ee080dbf", key, "0720b1d07b359d3c");
    let cid = "2fcc381bc74cb4fbad2823a3d1f8fed2";
    assert_vector(1, "ed793a51d49b8f5fab65", "ee080dbf48", key, cid);
    let cid = "504dd2d05a7b0de9b2b9907afb5ecf8cc3";
    assert_vector(2, "ed793a51d49b8f5f", "ee080dbf48c0d1e5", key, cid);
    let cid = "125779c9cc86beb3a3a4a3ca96fce4bfe0cdbc";
    assert_vector(0, "ed793a51d49b8f5fab", "ee080dbf48c0d1e55d", key, cid);
}

/// Section 5.4.2.4.
#[test]
fn the_example_of_the_four_passes_is_that_of_the_draft() {
    let key = Some("fdf726a9893ec05c0632d3956680baf0");
    assert_vector(0, "31441a", "9c69c275", key, "0767947d29be054a");
}

#[test]
fn limits_of_a_configuration_are_checked() {
    let refused = |config| QuicLb::new(config).err();
    assert_eq!(refused(config(7, "01", 4, None)), Some(QuicLbError::ConfigId(7)));
    assert_eq!(refused(config(9, "01", 4, None)), Some(QuicLbError::ConfigId(9)));
    assert_eq!(refused(config(0, "", 4, None)), Some(QuicLbError::ServerId));
    assert_eq!(refused(config(0, "01", 3, None)), Some(QuicLbError::NonceLen(3)));
    assert_eq!(refused(config(0, "0102", 18, None)), Some(QuicLbError::TooLong(20)));
    assert_eq!(
        refused(config(0, "01", usize::MAX, None)),
        Some(QuicLbError::TooLong(usize::MAX))
    );
    assert_eq!(refused(config(6, "01", 18, None)), None);
}

/// Section 4.1.
#[test]
fn unroutable_ids_are_told_from_others() {
    let lb = QuicLb::new(config(3, "0102", 6, None)).unwrap();
    let good = lb.encode(&[9; 6], 0).unwrap();
    assert!(lb.decode(&good).is_ok());
    assert_eq!(lb.decode(&[]), Err(Unroutable::Length));
    assert_eq!(lb.decode(&good[..8]), Err(Unroutable::Length));
    for other in 0..8u8 {
        let mut cid = good.clone();
        cid[0] = cid[0] & LENGTH_BITS | other << 5;
        assert_eq!(lb.decode(&cid).is_ok(), other == 3, "config id {other}");
    }
    let mut says_less = good.clone();
    says_less[0] -= 1;
    assert_eq!(lb.decode(&says_less), Err(Unroutable::Length));
    // Octets of the server's own follow (section 5.4).
    let longer = [&good[..], &[7, 7]].concat();
    assert_eq!(lb.decode(&longer), lb.decode(&good));
    assert_eq!(unroutable_first_octet(9), 0b111_01000);
}

/// Section 3.3: what is not the length must tell nothing.
#[test]
fn the_first_octet_is_random_where_it_does_not_say_the_length() {
    let without =
        QuicLbConfig { first_octet_encodes_cid_length: false, ..config(5, "0102", 6, None) };
    let lb = QuicLb::new(without).unwrap();
    for random in 0..=255 {
        let cid = lb.encode(&[9; 6], random).unwrap();
        assert_eq!(cid[0], 5 << 5 | random & 31);
        assert!(lb.decode(&cid).is_ok());
    }
    assert_eq!(lb.encode(&[9; 5], 0), None, "a nonce of another length");
}

#[test]
fn the_key_is_not_printed() {
    let key = "8f95f09245765f80256934e50c66207f";
    let printed = format!("{:?}", config(0, "01", 4, Some(key)));
    assert!(!printed.contains("143") && printed.contains("has_key: true"), "{printed}");
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        config_id in 0u8..7,
        server_id in prop::collection::vec(any::<u8>(), 1..16),
        nonce in prop::collection::vec(any::<u8>(), 4..19),
        key in any::<Option<[u8; 16]>>(),
        (first_octet_encodes_cid_length, random) in any::<(bool, u8)>(),
    ) {
        prop_assume!(server_id.len() + nonce.len() < MAX_CID_LEN);
        let nonce_len = nonce.len();
        let config = QuicLbConfig {
            config_id, server_id: server_id.clone(), nonce_len, key, first_octet_encodes_cid_length,
        };
        let lb = QuicLb::new(config).unwrap();
        let cid = lb.encode(&nonce, random).unwrap();
        prop_assert_eq!(cid.len(), 1 + server_id.len() + nonce_len);
        let decoded = lb.decode(&cid).unwrap();
        prop_assert_eq!(decoded.server_id(), &server_id[..]);
        prop_assert_eq!(decoded.nonce(), &nonce[..]);
    }

    #[test]
    fn no_bytes_are_too_odd_to_be_decoded(
        cid in prop::collection::vec(any::<u8>(), 0..30),
        key in any::<Option<[u8; 16]>>(),
        (server_id_len, nonce_len) in (1usize..8, 4usize..12),
    ) {
        let server_id = vec![1; server_id_len];
        let config = QuicLbConfig {
            config_id: 0, server_id, nonce_len, key, first_octet_encodes_cid_length: false,
        };
        let lb = QuicLb::new(config).unwrap();
        let is_long = cid.len() >= lb.cid_len();
        prop_assert_eq!(lb.decode(&cid).is_ok(), is_long && cid[0] >> 5 == 0);
    }
}
