//! The sample packets of RFC 9001 appendix A.
//!
//! A.1 to A.3 protect Initial packets, which this crate leaves alone; key derivation, payload
//! protection and header-protection masks are the same for every packet type, so they are
//! checked on the types for one generation. A.4 (Retry) has no counterpart here.

use ring::hkdf;

use crate::{
    CipherSuite, Error, ProtectionKeys, ShortHeader, TAG_LEN,
    header::HeaderProtection,
    keys::{GenerationKeys, Length, expand_label},
};

const INITIAL_SALT: &str = "38762cf7f55934b34d179ae6a4c80cadccbb7f0a";
const INITIAL_DCID: &str = "8394c8f03e515708";
const CHACHA20_SECRET: &str =
    "9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b";

#[test]
fn a1_derives_client_and_server_initial_keys() {
    for (side, secret, key, iv, hp) in [
        (
            "client in",
            "c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea",
            "1f369613dd76d5467730efcbe3b1a22d",
            "fa044b2f42a3fd3b46fb255c",
            "9f50449e04a0e810283a1e9933adedd2",
        ),
        (
            "server in",
            "3c199828fd139efd216c155ad844cc81fb82fa8d7446fa7d78be803acdda951b",
            "cf3a5331653c364c88f0f379b6067e37",
            "0ac1493ca1905853b0bba03e",
            "c206b8d9b9f0f37644430b490eeaa314",
        ),
    ] {
        assert_eq!(expand(&initial_prk(), side, 32), hex(secret));
        let prk = initial_secret(side);
        assert_eq!(expand(&prk, "quic key", 16), hex(key));
        assert_eq!(expand(&prk, "quic iv", 12), hex(iv));
        assert_eq!(expand(&prk, "quic hp", 16), hex(hp));
    }
}

#[test]
fn a2_protects_the_client_initial() {
    let header = hex("c300000001088394c8f03e5157080000449e00000002");
    let mut payload = hex(concat!(
        "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e868",
        "04fe3a47f06a2b69484c00000413011302010000c000000010000e00000b6578",
        "616d706c652e636f6dff01000100000a00080006001d00170018001000070005",
        "04616c706e000500050100000000003300260024001d00209370b2c9caa47fba",
        "baf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b000302030400",
        "0d0010000e0403050306030203080408050806002d00020101001c0002400100",
        "3900320408ffffffffffffffff05048000ffff07048000ffff08011001048000",
        "75300901100f088394c8f03e51570806048000ffff",
    ));
    payload.resize(1162, 0);
    let plain = payload.clone();

    let keys = initial_keys("client in");
    let tag = keys.seal(2, &header, &mut payload).unwrap();
    let sample = &payload[..16]; // behind a packet number of four bytes
    assert_eq!(sample, hex("d1b1c98dd7689fb8ec11d242b123dc9b"));
    assert_eq!(initial_mask("client in", sample), *hex("437b9aec36"));
    assert_eq!(tag, *hex("e221af44860018ab0856972e194cd934"));

    payload.extend(tag);
    keys.open(2, &header, &mut payload).unwrap();
    assert_eq!(payload[..plain.len()], plain);
}

#[test]
fn a3_protects_the_server_initial() {
    let header = hex("c1000000010008f067a5502a4262b50040750001");
    let mut payload = hex(concat!(
        "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf739",
        "88cfc79825df566dc5430b9a045a1200130100002e00330024001d00209d3c94",
        "0d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00",
        "020304",
    ));
    let tag = initial_keys("server in").seal(1, &header, &mut payload).unwrap();
    payload.extend(tag);
    assert_eq!(
        payload,
        hex(concat!(
            "5a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb38cc5a99f",
            "5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73",
            "cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850",
            "abbdca3d20398c276456cbc42158407dd074ee",
        ))
    );
    let sample = &payload[2..18]; // behind a packet number of two bytes
    assert_eq!(sample, hex("2cd0991cd25b0aac406a5816b6394100"));
    assert_eq!(initial_mask("server in", sample), *hex("2ec0d8356a"));
}

#[test]
fn a5_derives_the_chacha20_keys_and_their_update() {
    let prk = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &hex(CHACHA20_SECRET));
    for (label, value) in [
        ("quic key", "c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8"),
        ("quic hp", "25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4"),
        ("quic ku", "1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9"),
    ] {
        assert_eq!(expand(&prk, label, 32), hex(value));
    }
    assert_eq!(expand(&prk, "quic iv", 12), hex("e0459b3474bdd0e44a41c144"));
}

#[test]
fn a5_opens_and_seals_the_chacha20_short_header_packet() {
    let protected = hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb");
    let header =
        ShortHeader { first_byte: 0x42, packet_number: 654_360_564, pn_len: 3, header_len: 4 };
    let mut keys = chacha20_keys();
    assert_eq!(keys.peek(&protected, 0, header.packet_number), Ok(header));

    let mut packet = protected.clone();
    let opened = keys.open(&mut packet, 0, header.packet_number).unwrap();
    assert_eq!(opened.header, header);
    assert_eq!(opened.payload, 4..5);
    assert_eq!(opened.generation, 0);
    assert_eq!(packet[..5], hex("4200bff401"));

    packet[5..].fill(0);
    assert_eq!(keys.seal(0, &mut packet, &header, 1), Ok(protected.len()));
    assert_eq!(packet, protected);
}

#[test]
fn a5_the_next_generation_is_that_of_the_quic_ku_secret() {
    let header = ShortHeader { first_byte: 0x46, packet_number: 7, pn_len: 3, header_len: 4 };
    let plain = hex("4600000701");
    let mut updated = [plain.clone(), vec![0; TAG_LEN]].concat();
    chacha20_keys().seal(1, &mut updated, &header, 1).unwrap();

    // The same packet under keys made from the published secret, payload protection alone: the
    // header-protection key is that of the first generation.
    let published = hkdf::Prk::new_less_safe(
        hkdf::HKDF_SHA256,
        &hex("1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9"),
    );
    let keys = GenerationKeys::new(CipherSuite::ChaCha20Poly1305Sha256, &published).unwrap();
    let mut payload = plain[4..].to_vec();
    let tag = keys.seal(7, &plain[..4], &mut payload).unwrap();
    payload.extend(tag);
    assert_eq!(updated[4..], payload);
    assert_eq!(chacha20_keys().peek(&updated, 0, 7), Ok(header));
}

#[test]
fn a_secret_of_another_suite_is_refused() {
    let suite = CipherSuite::Aes256GcmSha384;
    assert_eq!(
        ProtectionKeys::new(suite, &hex(CHACHA20_SECRET)).err(),
        Some(Error::SecretLength { suite, actual: 32 })
    );
}

fn chacha20_keys() -> ProtectionKeys {
    ProtectionKeys::new(CipherSuite::ChaCha20Poly1305Sha256, &hex(CHACHA20_SECRET)).unwrap()
}

fn initial_prk() -> hkdf::Prk {
    hkdf::Salt::new(hkdf::HKDF_SHA256, &hex(INITIAL_SALT)).extract(&hex(INITIAL_DCID))
}

fn initial_secret(side: &str) -> hkdf::Prk {
    expand_label(&initial_prk(), side.as_bytes(), hkdf::HKDF_SHA256, |okm| Ok(okm.into()))
        .unwrap()
}

fn initial_keys(side: &str) -> GenerationKeys {
    GenerationKeys::new(CipherSuite::Aes128GcmSha256, &initial_secret(side)).unwrap()
}

fn initial_mask(side: &str, sample: &[u8]) -> [u8; 5] {
    HeaderProtection::new(CipherSuite::Aes128GcmSha256, &initial_secret(side))
        .unwrap()
        .mask_bytes(sample)
}

fn expand(secret: &hkdf::Prk, label: &str, len: usize) -> Vec<u8> {
    expand_label(secret, label.as_bytes(), Length(len), |okm| {
        let mut out = vec![0; len];
        okm.fill(&mut out)?;
        Ok(out)
    })
    .unwrap()
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}
