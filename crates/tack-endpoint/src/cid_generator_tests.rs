use std::collections::HashSet;

use super::*;

const MASK: [u8; 32] = [7; 32];

fn quic_lb(nonce_len: usize, key: Option<[u8; 16]>) -> QuicLbConfig {
    QuicLbConfig {
        config_id: 2,
        server_id: vec![0xab, 0xcd],
        nonce_len,
        key,
        first_octet_encodes_cid_length: false,
    }
}

fn formats() -> [Option<QuicLbConfig>; 5] {
    let key = Some([9; 16]);
    [
        None,
        Some(quic_lb(6, None)),
        Some(quic_lb(6, key)),
        Some(quic_lb(14, key)),
        Some(quic_lb(17, key)),
    ]
}

fn workers(config: Option<&QuicLbConfig>, count: usize) -> Vec<CidGenerator> {
    let worker = |index| WorkerIndex { index: index as u8, count };
    (0..count).map(|index| CidGenerator::new(config, worker(index), &MASK).unwrap()).collect()
}

#[test]
fn every_worker_reads_from_an_id_which_of_them_issued_it() {
    for config in formats() {
        let mut all = workers(config.as_ref(), 5);
        for issuer in 0..5 {
            for _ in 0..100 {
                let cid = all[issuer].generate().unwrap();
                assert_eq!(cid.len(), all[issuer].cid_len());
                for (reader, generator) in all.iter().enumerate() {
                    let expected = (reader != issuer).then_some(issuer);
                    assert_eq!(generator.other_worker(&cid), expected, "{config:?}");
                }
            }
        }
    }
}

#[test]
fn an_endpoint_alone_takes_no_id_for_anothers() {
    for config in formats() {
        let mut alone = workers(config.as_ref(), 1);
        let mut others = workers(config.as_ref(), 2);
        let cid = others[1].generate().unwrap();
        assert_eq!(alone[0].other_worker(&cid), None);
        let own = alone[0].generate().unwrap();
        assert_eq!(own.len(), cid.len());
    }
}

#[test]
fn a_load_balancer_reads_the_server_from_the_ids_of_all_workers() {
    for config in formats().into_iter().flatten() {
        for mut generator in workers(Some(&config), 3) {
            let lb = QuicLb::new(config.clone()).unwrap();
            let read = lb.decode(&generator.generate().unwrap()).unwrap();
            assert_eq!(read.server_id(), config.server_id);
        }
    }
}

#[test]
fn ids_of_another_server_or_length_belong_to_no_worker() {
    let other = QuicLbConfig { server_id: vec![0xab, 0xce], ..quic_lb(6, None) };
    let cid = workers(Some(&other), 2)[1].generate().unwrap();
    let mine = workers(Some(&quic_lb(6, None)), 2);
    assert_eq!(mine[0].other_worker(&cid), None);
    for config in formats() {
        let mut all = workers(config.as_ref(), 2);
        let cid = all[1].generate().unwrap();
        assert_eq!(all[0].other_worker(&cid[..cid.len() - 1]), None);
        assert_eq!(all[0].other_worker(&[&cid[..], &[0]].concat()), None);
        assert_eq!(all[0].other_worker(&[]), None);
    }
}

/// An observer that does not have the mask must not see which IDs are one worker's.
#[test]
fn the_octet_with_the_index_takes_all_values() {
    for config in [None, Some(quic_lb(6, None)), Some(quic_lb(6, Some([9; 16])))] {
        // Behind the first octet and the server id.
        let at = if config.is_none() { 0 } else { 3 };
        let mut generator = workers(config.as_ref(), 2).remove(1);
        let seen: HashSet<u8> = (0..4000).map(|_| generator.generate().unwrap()[at]).collect();
        assert!(seen.len() > 250, "{} values", seen.len());
    }
}

#[test]
fn an_id_that_was_made_up_seldom_passes_for_another_workers() {
    let generator = workers(None, 4).remove(0);
    let made_up = (0..20_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    let passed = made_up.filter(|cid| generator.other_worker(cid).is_some()).count();
    // 3 of 256.
    assert!((120..360).contains(&passed), "{passed}");
}

/// Sections 9.6 and 3.2.
#[test]
fn a_worker_without_nonces_issues_ids_that_are_not_routed_but_forwarded() {
    let config = quic_lb(5, Some([9; 16]));
    let mut all = workers(Some(&config), 2);
    let Format::QuicLb(_, Some(nonces)) = &mut all[1].format else { panic!("no nonces") };
    assert_eq!(nonces.left, 1 << 31);
    nonces.left = 2;
    let routed = [all[1].generate().unwrap(), all[1].generate().unwrap()];
    assert!(!all[1].has_spare_ids());
    let lb = QuicLb::new(config).unwrap();
    assert!(routed.iter().all(|cid| lb.decode(cid).is_ok()));
    let mut seen = HashSet::new();
    for _ in 0..100 {
        let cid = all[1].generate().unwrap();
        assert_eq!((cid[0], cid.len()), (0b111_00111, 8));
        assert!(lb.decode(&cid).is_err());
        assert_eq!(all[0].other_worker(&cid), Some(1));
        assert!(seen.insert(cid));
    }
    // The next Initial after a Retry comes to this server all the same.
    for _ in 0..100 {
        let cid = all[1].generate_for_retry().unwrap();
        assert_eq!(lb.decode(&cid).unwrap().server_id(), [0xab, 0xcd]);
        assert_eq!(all[0].other_worker(&cid), Some(1));
        assert!(seen.insert(cid));
    }
}

#[test]
fn the_id_of_a_retry_names_server_and_worker_as_those_of_connections_do() {
    for config in formats() {
        let mut all = workers(config.as_ref(), 3);
        for issuer in 0..3 {
            let cid = all[issuer].generate_for_retry().unwrap();
            assert_eq!(cid.len(), all[issuer].cid_len());
            for (reader, generator) in all.iter().enumerate() {
                let expected = (reader != issuer).then_some(issuer);
                assert_eq!(generator.other_worker(&cid), expected, "{config:?}");
            }
            if let Some(config) = &config {
                let lb = QuicLb::new(config.clone()).unwrap();
                assert_eq!(lb.decode(&cid).unwrap().server_id(), config.server_id);
            }
        }
    }
}

/// Section 9.6.
#[test]
fn no_id_of_a_retry_is_ever_that_of_a_connection_where_nonces_are_counted() {
    let is_of_retry = |nonces: &mut Nonces, purpose, len: usize| {
        let mut nonce = [5; 10];
        let nonce = &mut nonce[..len];
        nonces.next(purpose, nonce);
        nonce[len - len.min(8)] & OF_RETRY != 0
    };
    for len in [4, 8, 10] {
        let mut nonces = Nonces::new(&SystemRandom::new(), len).unwrap();
        let left = nonces.left;
        for _ in 0..1000 {
            assert!(is_of_retry(&mut nonces, Purpose::Retry, len));
            assert!(!is_of_retry(&mut nonces, Purpose::Connection, len));
        }
        assert_eq!(left - nonces.left, 1000, "{len} octets");
    }
}

#[test]
fn nonces_that_are_counted_come_once() {
    let start = u64::MAX - 100;
    let mut nonces = Nonces { next: start, left: 1000, next_of_retry: start };
    let mut seen = HashSet::new();
    for _ in 0..256 {
        for purpose in [Purpose::Connection, Purpose::Retry] {
            let mut nonce = [0; 4];
            nonces.next(purpose, &mut nonce);
            assert!(seen.insert(nonce));
        }
    }
    assert_eq!(nonces.left, 744);
    let mut long = [5; 10];
    nonces.next(Purpose::Connection, &mut long);
    assert_eq!(
        (long[..2].to_vec(), long[2..].to_vec()),
        (vec![5, 5], 155u64.to_be_bytes().to_vec())
    );
}

/// Section 9.
#[test]
fn spare_ids_exist_unless_they_would_show_the_server() {
    let spare = |config: Option<&QuicLbConfig>| workers(config, 1)[0].has_spare_ids();
    assert!(spare(None) && spare(Some(&quic_lb(6, Some([9; 16])))));
    assert!(!spare(Some(&quic_lb(6, None))));
}

#[test]
fn a_nonce_has_four_octets_beside_the_workers() {
    let new = |nonce_len, count| {
        let worker = WorkerIndex { index: 0, count };
        CidGenerator::new(Some(&quic_lb(nonce_len, None)), worker, &MASK).err()
    };
    assert!(new(4, 1).is_none() && new(5, 2).is_none());
    assert!(matches!(new(4, 2), Some(Error::WorkerNonce(4))));
    assert!(matches!(new(3, 1), Some(Error::QuicLb(_))));
}
