//! Compiles the libraries that servers preload with the compiler that Rust links with.

use std::path::Path;
use std::process::Command;

fn main() {
    for name in ["clock", "disk"] {
        let source = format!("src/{name}.c");
        println!("cargo::rerun-if-changed={source}");
        let library = Path::new(&std::env::var_os("OUT_DIR").unwrap()).join(format!("{name}.so"));
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-Wall", "-fPIC", "-shared", &source, "-o"]).arg(library);
        assert!(cc.status().expect("a C compiler").success(), "{cc:?}");
    }
}
