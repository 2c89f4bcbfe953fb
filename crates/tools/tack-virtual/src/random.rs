//! BoringSSL's randomness on a thread.

use std::cell::RefCell;

use libc::{c_int, size_t};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

thread_local! {
    static GENERATOR: RefCell<Option<Pcg64Mcg>> = const { RefCell::new(None) };
}

/// Seeds this thread's randomness, or gives it back the real one.
pub fn seed(seed: Option<u64>) {
    GENERATOR.set(seed.map(Pcg64Mcg::seed_from_u64));
}

/// Fills `bytes` from this thread's generator, if it has one.
fn fill(bytes: &mut [u8]) -> bool {
    let filled = GENERATOR.try_with(|generator| {
        generator.borrow_mut().as_mut().map(|generator| generator.fill_bytes(bytes))
    });
    matches!(filled, Ok(Some(())))
}

unsafe extern "C" {
    /// BoringSSL's own `RAND_bytes`, under the name that the linker's `--wrap` gives it.
    fn __real_RAND_bytes(bytes: *mut u8, len: size_t) -> c_int;
}

/// Takes the place of BoringSSL's `RAND_bytes`.
///
/// # Safety
///
/// As BoringSSL demands: `bytes` points to memory for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_RAND_bytes(bytes: *mut u8, len: size_t) -> c_int {
    if len > 0 {
        // SAFETY: the caller vouches for `bytes`; it is written before it is read, as zeros
        // first because a slice must be initialised.
        let slice = unsafe {
            bytes.write_bytes(0, len);
            std::slice::from_raw_parts_mut(bytes, len)
        };
        if fill(slice) {
            return 1;
        }
    }
    // SAFETY: the same call, with the caller's own arguments.
    unsafe { __real_RAND_bytes(bytes, len) }
}

#[cfg(test)]
pub mod tests {
    /// What a caller in BoringSSL or quiche would get.
    pub fn boringssl_bytes(bytes: &mut [u8]) {
        // SAFETY: pointer and length are those of a slice.
        let result = unsafe { boring_sys::RAND_bytes(bytes.as_mut_ptr(), bytes.len()) };
        assert_eq!(result, 1);
    }
}
