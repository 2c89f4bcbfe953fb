//! File transfer over QUIC with TACK
