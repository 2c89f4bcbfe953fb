//! QUIC 1-RTT packet protection from TLS traffic secrets
