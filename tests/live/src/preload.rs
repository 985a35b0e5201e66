//! Libraries for the tests. The processes of one server preload such a library, and share memory
//! with the test.

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
    /// The shared memory, which is a file. It is initialized with zeros.
    pub shared: &'static [AtomicI64],
}

impl Preloaded {
    /// Writes the library and the file of the shared memory into this folder. The server's user
    /// must be able to access it, and may have no access to the folder of the build. The
    /// environment variable contains the path of the file.
    pub fn new(
        folder: &Path,
        variable: &'static str,
        library: &[u8],
        shared_len: usize,
    ) -> Preloaded {
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
        // SAFETY: the memory is new, and maps a file of this length, which never changes. It starts
        // at a page, so it is aligned. It is never unmapped, and all accesses through the slice are
        // atomic.
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
