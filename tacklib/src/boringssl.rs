//! The BoringSSL calls that neither quiche nor the boring crate offers: reading
//! and overriding QUIC transport parameters, and passing a key log on. All unsafe code of the crate is here.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use boring::ex_data::Index;
use boring::ssl::{Ssl, SslContextBuilder, SslRef};
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

/// Replaces the transport parameters that a handshake will send, and keeps them beside it for
/// [`announced_parameters`]. False if BoringSSL refused (out of memory).
pub fn announce_parameters(ssl: &mut SslRef, parameters: Vec<u8>) -> bool {
    let Some(index) = parameters_index() else { return false };
    let is_set = set_transport_parameters(ssl, &parameters);
    ssl.set_ex_data(index, parameters);
    is_set
}

/// The transport parameters that were given to [`announce_parameters`] or
/// [`set_transport_parameters_later`].
pub fn announced_parameters(ssl: &SslRef) -> Option<&Vec<u8>> {
    ssl.ex_data(parameters_index()?)
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

/// Sets the transport parameters once the server has read the ClientHello.
///
/// quiche encodes a server's parameters twice more while it reads the first
/// datagram; the certificate callback runs after both and before they are sent.
/// The parameters belong to the SSL object and live as long as it does. False if
/// BoringSSL refused (out of memory).
pub fn set_transport_parameters_later(ssl: &mut SslRef, parameters: Vec<u8>) -> bool {
    let Some(index) = parameters_index() else { return false };
    ssl.set_ex_data(index, parameters);
    // SAFETY: `ssl` is a live SSL object that we hold exclusively, and the
    // callback takes no argument. The boring crate has no way to install a
    // certificate callback, so none of the application's is lost.
    unsafe { ffi::SSL_set_cert_cb(ssl.as_ptr(), Some(on_certificate), ptr::null_mut()) };
    true
}

/// BoringSSL's certificate callback: returns 1 to go on, 0 to fail.
unsafe extern "C" fn on_certificate(ssl: *mut ffi::SSL, _: *mut c_void) -> c_int {
    // SAFETY: BoringSSL calls back with the live SSL object of the handshake,
    // which nobody else uses during the call.
    let ssl = unsafe { SslRef::from_ptr_mut(ssl) };
    let parameters = announced_parameters(ssl).cloned();
    c_int::from(parameters.is_some_and(|parameters| set_transport_parameters(ssl, &parameters)))
}

/// A TLS context's key log callback, as BoringSSL keeps it.
type KeyLog = unsafe extern "C" fn(*const ffi::SSL, *const c_char);

/// The key log callback that an application has set on its TLS context.
#[derive(Clone, Copy)]
pub struct KeyLogCallback(KeyLog);

/// quiche's key log callback: it has one for all contexts.
static QUICHES_KEY_LOG: OnceLock<KeyLog> = OnceLock::new();

/// The key log callback of a TLS context, which BoringSSL forgets when another one is set.
pub fn key_log_callback(builder: &SslContextBuilder) -> Option<KeyLogCallback> {
    // SAFETY: `builder` holds a live SSL_CTX.
    unsafe { ffi::SSL_CTX_get_keylog_callback(builder.as_ptr()) }.map(KeyLogCallback)
}

/// Has the application's callback called too, where quiche's has taken its place on the TLS context of `ssl`.
pub fn forward_key_log(ssl: &mut SslRef, callback: KeyLogCallback) {
    let Some(index) = key_log_index() else { return };
    ssl.set_ex_data(index, callback);
    // SAFETY: `ssl` is a live SSL object that we hold exclusively, and keeps its context alive. Its
    // callback is `log_keys_to_both` or quiche's: only where quiche's was set this is called.
    unsafe {
        let context = ffi::SSL_get_SSL_CTX(ssl.as_ptr());
        let Some(current) = ffi::SSL_CTX_get_keylog_callback(context) else { return };
        if !ptr::fn_addr_eq(current, log_keys_to_both as KeyLog) {
            QUICHES_KEY_LOG.get_or_init(|| current);
            ffi::SSL_CTX_set_keylog_callback(context, Some(log_keys_to_both));
        }
    }
}

/// BoringSSL's key log callback: calls quiche's and the application's.
unsafe extern "C" fn log_keys_to_both(ssl: *const ffi::SSL, line: *const c_char) {
    // SAFETY: BoringSSL calls back with the live SSL object of the handshake and a line that ends with zero. Both
    // callbacks were set on the context of `ssl` for such calls. The application's has its closure there, where
    // the boring crate keeps it as long as the context lives.
    unsafe {
        if let Some(quiches) = QUICHES_KEY_LOG.get() {
            quiches(ssl, line);
        }
        let application =
            key_log_index().and_then(|index| SslRef::from_ptr(ssl.cast_mut()).ex_data(index));
        if let Some(KeyLogCallback(application)) = application {
            application(ssl, line);
        }
    }
}

/// Where SSL objects keep the application's key log callback; `None` if BoringSSL is out of memory.
fn key_log_index() -> Option<Index<Ssl, KeyLogCallback>> {
    static INDEX: OnceLock<Option<Index<Ssl, KeyLogCallback>>> = OnceLock::new();
    *INDEX.get_or_init(|| Ssl::new_ex_index().ok())
}

/// Where SSL objects keep the parameters; `None` if BoringSSL is out of memory.
fn parameters_index() -> Option<Index<Ssl, Vec<u8>>> {
    static INDEX: OnceLock<Option<Index<Ssl, Vec<u8>>>> = OnceLock::new();
    *INDEX.get_or_init(|| Ssl::new_ex_index().ok())
}
