//! Lets the linker put tack-virtual's `__wrap_RAND_bytes` in the place of BoringSSL's
//! `RAND_bytes`. This is for the tests, which each link tack-virtual; nothing else is linked here.

fn main() {
    println!("cargo:rustc-link-arg=-Wl,--wrap=RAND_bytes");
    println!("cargo:rerun-if-changed=build.rs");
}
