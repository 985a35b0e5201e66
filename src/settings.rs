//! The settings of this extension.

use crate::layout::{SHARD_MAX, Shard};
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};

const NOT_SET: i32 = -1;

static SHARD: GucSetting<i32> = GucSetting::<i32>::new(NOT_SET);

/// `instagram_id.shard`, the shard of `next_id()`.
pub fn shard() -> Option<Shard> {
    Shard::new(SHARD.get())
}

pub fn register() {
    GucRegistry::define_int_guc(
        c"instagram_id.shard",
        c"Shard of next_id() without an argument, for databases of one shard.",
        c"A number from 0 to 8191; -1 means not set.",
        &SHARD,
        NOT_SET,
        SHARD_MAX as i32,
        GucContext::Userset,
        GucFlags::default(),
    );
    // SAFETY: called while the library is loaded; from here on a misspelt instagram_id.* is an error.
    unsafe { pgrx::pg_sys::MarkGUCPrefixReserved(c"instagram_id".as_ptr()) }
}
