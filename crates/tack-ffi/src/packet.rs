//! Packets outside of connections: what a server reads before it has one, and what it answers.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use libc::ssize_t;
use tack_quiche::ConnectionId;

use crate::error::{Failure, INVALID_ARGUMENT, length, status, tack_error};
use crate::header::PacketHeader;
use crate::pointer::{Bytes, BytesMut};

/// QUIC version 1 (RFC 9000).
pub const TACK_PROTOCOL_VERSION: u32 = 0x0000_0001;

/// The longest connection id, bytes.
pub const TACK_MAX_CONN_ID_LEN: usize = 20;

/// The shortest datagram with an Initial packet of a client, bytes.
pub const TACK_MIN_CLIENT_INITIAL_LEN: usize = 1200;

/// A connection id that C has passed.
pub(crate) fn connection_id(id: &Bytes, len: usize) -> Result<ConnectionId<'_>, Failure> {
    if len > TACK_MAX_CONN_ID_LEN {
        return Err(INVALID_ARGUMENT);
    }
    Ok(ConnectionId::from_ref(id.get(len)?))
}

/// Reads the header of the first packet in a datagram.
///
/// `dcil` is the length of the connection ids that this end gives out: short headers do not tell it. Each
/// `..._len` is the room there is, and becomes the length of what was written. `type` becomes 1 for Initial,
/// 2 Retry, 3 Handshake, 4 0-RTT, 5 a short header, 6 Version Negotiation. Returns 0 or an error, and nothing
/// is written then.
#[unsafe(no_mangle)]
pub extern "C" fn tack_header_info(
    buf: Bytes,
    buf_len: usize,
    dcil: usize,
    version: Option<&mut MaybeUninit<u32>>,
    r#type: Option<&mut MaybeUninit<u8>>,
    mut scid: BytesMut,
    scid_len: Option<&mut usize>,
    mut dcid: BytesMut,
    dcid_len: Option<&mut usize>,
    mut token: BytesMut,
    token_len: Option<&mut usize>,
) -> c_int {
    status(|| {
        let header = PacketHeader::parse(buf.get(buf_len)?, dcil)?;
        let (version, ty) = version.zip(r#type).ok_or(INVALID_ARGUMENT)?;
        let scid_len = scid_len.ok_or(INVALID_ARGUMENT)?;
        let dcid_len = dcid_len.ok_or(INVALID_ARGUMENT)?;
        let token_len = token_len.ok_or(INVALID_ARGUMENT)?;
        let fields = [
            (header.scid, scid.get(*scid_len)?, scid_len),
            (header.dcid, dcid.get(*dcid_len)?, dcid_len),
            (header.token, token.get(*token_len)?, token_len),
        ];
        // All are looked at before any is written.
        if fields.iter().any(|(field, place, _)| place.len() < field.len()) {
            return Err(tack_error::TACK_ERR_BUFFER_TOO_SHORT.into());
        }
        for (field, place, len) in fields {
            place[..field.len()].copy_from_slice(field);
            *len = field.len();
        }
        version.write(header.version);
        ty.write(header.packet_type as u8);
        Ok(())
    })
}

/// Writes a Version Negotiation packet to `out`, to a client whose Initial had these connection ids. Returns
/// its length, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_negotiate_version(
    scid: Bytes,
    scid_len: usize,
    dcid: Bytes,
    dcid_len: usize,
    mut out: BytesMut,
    out_len: usize,
) -> ssize_t {
    length(|| {
        let scid = connection_id(&scid, scid_len)?;
        let dcid = connection_id(&dcid, dcid_len)?;
        Ok(tack_quiche::negotiate_version(&scid, &dcid, out.get(out_len)?)?)
    })
}

/// Writes a Retry packet to `out`, to a client whose Initial had these connection ids; it answers with
/// `token`, to `new_scid`. Returns the packet's length, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_retry(
    scid: Bytes,
    scid_len: usize,
    dcid: Bytes,
    dcid_len: usize,
    new_scid: Bytes,
    new_scid_len: usize,
    token: Bytes,
    token_len: usize,
    version: u32,
    mut out: BytesMut,
    out_len: usize,
) -> ssize_t {
    length(|| {
        let scid = connection_id(&scid, scid_len)?;
        let dcid = connection_id(&dcid, dcid_len)?;
        let new_scid = connection_id(&new_scid, new_scid_len)?;
        let (token, out) = (token.get(token_len)?, out.get(out_len)?);
        Ok(tack_quiche::retry(&scid, &dcid, &new_scid, token, version, out)?)
    })
}

/// Whether connections of this QUIC version can be had.
#[unsafe(no_mangle)]
pub extern "C" fn tack_version_is_supported(version: u32) -> bool {
    tack_quiche::version_is_supported(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_quiches() {
        assert_eq!(TACK_PROTOCOL_VERSION, tack_quiche::PROTOCOL_VERSION);
        assert_eq!(TACK_MAX_CONN_ID_LEN, tack_quiche::MAX_CONN_ID_LEN);
        assert_eq!(TACK_MIN_CLIENT_INITIAL_LEN, tack_quiche::MIN_CLIENT_INITIAL_LEN);
    }
}
