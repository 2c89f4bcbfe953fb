//! Lets the linker put tack-virtual's `__wrap_RAND_bytes` in the place of BoringSSL's
//! `RAND_bytes` in the tests under `tests`, each of which links tack-virtual. Nothing else is linked so.

fn main() {
    println!("cargo:rustc-link-arg-tests=-Wl,--wrap=RAND_bytes");
    println!("cargo:rerun-if-changed=build.rs");
}
