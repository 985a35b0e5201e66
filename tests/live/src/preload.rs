//! Libraries written for the tests, which the processes of one server preload, and the memory that they share with the
//! test.

use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;
use std::sync::atomic::AtomicI64;

pub struct Preloaded {
    library: PathBuf,
    file: PathBuf,
    variable: &'static str,
    /// The shared memory, which is a file. It begins with zeros.
    pub shared: &'static [AtomicI64],
}

impl Preloaded {
    /// The files are in this folder, where the server's user can read and write them, wherever the tests were built. The
    /// environment variable tells the library where its file is.
    pub fn new(folder: &Path, variable: &'static str, library: &[u8], shared_len: usize) -> Preloaded {
        let [library, file] = [("so", library), ("shared", &[])].map(|(extension, content)| {
            let path = folder.join(variable).with_extension(extension);
            fs::write(&path, content).unwrap();
            path
        });
        fs::set_permissions(&library, Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        let opened = OpenOptions::new().read(true).write(true).open(&file).unwrap();
        let size = shared_len * size_of::<AtomicI64>();
        opened.set_len(size as u64).unwrap();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory, of a file of this length, which never changes; it starts at a page, so it is aligned. It is
        // never unmapped, and all accesses through the slice are atomic.
        let shared = unsafe {
            let mapped = mmap(null_mut(), size, access, MapFlags::SHARED, opened, 0).unwrap();
            std::slice::from_raw_parts(mapped.cast::<AtomicI64>(), shared_len)
        };
        Preloaded { library, file, variable, shared }
    }

    /// Makes a program, and its child processes, preload the library.
    pub fn show(&self, program: &mut Command) {
        program.env("LD_PRELOAD", &self.library).env(self.variable, &self.file);
    }
}
