//! The BoringSSL calls that neither quiche nor the boring crate offers: reading
//! and overriding QUIC transport parameters. All unsafe code of the crate is here.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use boring::ssl::SslRef;
use boring_sys as ffi;
use foreign_types_shared::ForeignTypeRef;

/// Replaces the transport parameters that a handshake will send. BoringSSL
/// copies them. False if it refused (out of memory).
pub fn set_transport_parameters(ssl: &mut SslRef, parameters: &[u8]) -> bool {
    // SAFETY: `ssl` is a live SSL object that we hold exclusively, and the
    // slice is valid for its length for the duration of the call.
    let ok = unsafe {
        ffi::SSL_set_quic_transport_params(ssl.as_ptr(), parameters.as_ptr(), parameters.len())
    };
    ok == 1
}

/// The peer's transport parameters as it sent them; empty before they came.
pub fn peer_transport_parameters(ssl: &SslRef) -> Vec<u8> {
    let mut data: *const u8 = ptr::null();
    let mut len = 0usize;
    // SAFETY: `ssl` is a live SSL object; both out-pointers are valid. What
    // they are set to belongs to `ssl` and is copied before `ssl` can change.
    unsafe {
        ffi::SSL_get_peer_quic_transport_params(ssl.as_ptr(), &raw mut data, &raw mut len);
        if data.is_null() || len == 0 {
            return Vec::new();
        }
        std::slice::from_raw_parts(data, len).to_vec()
    }
}

/// Transport parameters to be set when the server has read the ClientHello.
///
/// quiche encodes a server's parameters twice more while it reads the first
/// datagram; the certificate callback runs after both and before they are sent.
/// The value must be kept alive as long as the connection.
pub struct ServerParameters(Arc<Vec<u8>>);

impl ServerParameters {
    /// Installs the callback on a server's handshake.
    pub fn install(ssl: &mut SslRef, parameters: Vec<u8>) -> Self {
        let parameters = Arc::new(parameters);
        // SAFETY: `ssl` is a live SSL object that we hold exclusively. The
        // argument points into an Arc that the caller keeps as long as the
        // connection that owns `ssl`, and is only read through. The boring
        // crate has no way to install a certificate callback, so none is lost.
        unsafe {
            ffi::SSL_set_cert_cb(
                ssl.as_ptr(),
                Some(on_certificate),
                Arc::as_ptr(&parameters).cast_mut().cast::<c_void>(),
            );
        }
        Self(parameters)
    }

    /// The parameters that will be, or were, sent.
    pub fn get(&self) -> &[u8] {
        &self.0
    }
}

/// BoringSSL's certificate callback: returns 1 to go on, 0 to fail.
unsafe extern "C" fn on_certificate(ssl: *mut ffi::SSL, parameters: *mut c_void) -> c_int {
    // SAFETY: BoringSSL passes the argument given to `SSL_set_cert_cb`, which
    // `ServerParameters` keeps alive and nobody writes to.
    let parameters = unsafe { &*parameters.cast_const().cast::<Vec<u8>>() };
    // SAFETY: BoringSSL calls back with the live SSL object of the handshake.
    unsafe { ffi::SSL_set_quic_transport_params(ssl, parameters.as_ptr(), parameters.len()) }
}
