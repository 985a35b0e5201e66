//! Compiles `src/clock.c` with the compiler that Rust links with.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/clock.c");
    let library = Path::new(&std::env::var_os("OUT_DIR").unwrap()).join("clock.so");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-fPIC", "-shared", "src/clock.c", "-o"]).arg(library);
    assert!(cc.status().expect("a C compiler").success(), "{cc:?}");
}
