//! Lets the linker put tack-virtual's `__wrap_RAND_bytes` in the place of BoringSSL's
//! `RAND_bytes`.

fn main() {
    println!("cargo:rustc-link-arg=-Wl,--wrap=RAND_bytes");
    println!("cargo:rerun-if-changed=build.rs");
}
