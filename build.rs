//! The linker would remove the descriptions of the tests inside a server from the library, in which
//! cargo-pgrx looks for them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_PG_TEST").is_some() {
        println!("cargo::rustc-link-arg-cdylib=-Wl,--no-gc-sections");
    }
}
