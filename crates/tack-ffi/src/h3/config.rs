//! Configuration of HTTP/3.

use tack_quiche::h3::Config;

use crate::error::object;

/// The largest that a setting can say (RFC 9000 section 16). quiche (0.30) panics over more.
pub(super) const MAX_VARINT: u64 = (1 << 62) - 1;

/// A configuration of HTTP/3. It can be freed before the connections that it was used for.
pub struct tack_h3_config(pub(super) Config);

/// Creates a configuration of HTTP/3, or returns NULL.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_config_new() -> Option<Box<tack_h3_config>> {
    object("create a configuration of HTTP/3", || Ok(tack_h3_config(Config::new()?)))
}

/// Frees a configuration. NULL is nothing to free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_config_free(config: Option<Box<tack_h3_config>>) {
    drop(config);
}

/// Sets SETTINGS_MAX_FIELD_SECTION_SIZE, bytes. More than 2^62 - 1 counts as that.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_config_set_max_field_section_size(
    config: Option<&mut tack_h3_config>,
    v: u64,
) {
    if let Some(config) = config {
        config.0.set_max_field_section_size(v.min(MAX_VARINT));
    }
}

/// Sets SETTINGS_QPACK_MAX_TABLE_CAPACITY, bytes. More than 2^62 - 1 counts as that.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_config_set_qpack_max_table_capacity(
    config: Option<&mut tack_h3_config>,
    v: u64,
) {
    if let Some(config) = config {
        config.0.set_qpack_max_table_capacity(v.min(MAX_VARINT));
    }
}

/// Sets SETTINGS_QPACK_BLOCKED_STREAMS. More than 2^62 - 1 counts as that.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_config_set_qpack_blocked_streams(
    config: Option<&mut tack_h3_config>,
    v: u64,
) {
    if let Some(config) = config {
        config.0.set_qpack_blocked_streams(v.min(MAX_VARINT));
    }
}

/// Sets SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 9220).
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_config_enable_extended_connect(
    config: Option<&mut tack_h3_config>,
    enabled: bool,
) {
    if let Some(config) = config {
        config.0.enable_extended_connect(enabled);
    }
}

/// Sets the longest field value of a PRIORITY_UPDATE frame that is taken, bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_config_set_max_priority_update_size(
    config: Option<&mut tack_h3_config>,
    v: u64,
) {
    if let Some(config) = config {
        config.0.set_max_priority_update_size(v);
    }
}
