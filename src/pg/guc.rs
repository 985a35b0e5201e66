//! The settings of this extension.

use instagram_id_core::layout::{SHARD_MAX, Shard};
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys::{self, AsPgCStr};
use std::ffi::{CStr, c_char};
use std::time::Duration;

const NOT_SET: i32 = -1;

static SHARD: GucSetting<i32> = GucSetting::<i32>::new(NOT_SET);

/// `instagram_id.shard`, the shard of `next_id()`.
pub fn shard() -> Option<Shard> {
    Shard::new(SHARD.get())
}

static TAKE_OVER_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(10_000);

/// `instagram_id.take_over_timeout`, the time in which a sequence must have been taken over from
/// the other nodes of a Citus cluster.
pub fn take_over_timeout() -> Duration {
    Duration::from_millis(TAKE_OVER_TIMEOUT.get() as u64)
}

static CONTINUE_WITHOUT_LOST_NODES: GucSetting<bool> = GucSetting::<bool>::new(false);

/// `instagram_id.continue_without_lost_nodes`, whether ids continue if nodes of a Citus cluster are
/// lost.
pub fn continues_without_lost_nodes() -> bool {
    CONTINUE_WITHOUT_LOST_NODES.get()
}

/// Whether there is a setting of this name, which may be another extension's.
pub fn exists(name: &CStr) -> bool {
    !value_of(name).is_null()
}

/// The value of a setting of another extension that is a number; `None` if there is no such
/// setting.
pub fn number(name: &CStr) -> Option<i64> {
    let value = value_of(name);
    // SAFETY: a string that is valid until the setting changes, or NULL.
    (!value.is_null())
        .then(|| unsafe { CStr::from_ptr(value) }.to_str().ok()?.parse().ok())
        .flatten()
}

/// Whether `application_name` begins with one of these.
pub fn is_application(prefixes: &[&str]) -> bool {
    let name = value_of(c"application_name");
    // SAFETY: a string that is valid until the setting changes, or NULL.
    let name = if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } };
    prefixes.iter().any(|prefix| name.to_bytes().starts_with(prefix.as_bytes()))
}

/// The value of a setting, or NULL.
fn value_of(name: &CStr) -> *const c_char {
    // SAFETY: the name ends with a zero byte, and may be unknown.
    unsafe { pg_sys::GetConfigOption(name.as_ptr(), true, false) }
}

/// Settings for generated queries and statements: names without a schema are those of pg_catalog,
/// strings are standard, names are quoted only where that is needed, as they are compared with
/// those in expressions, row-level security raises an error instead of hiding rows, function bodies
/// are not checked when they are only moved, and no query of the catalogs is compiled, which takes
/// longer than to run it.
pub const OWN_SETTINGS: &[(&CStr, &str)] = &[
    (c"search_path", "pg_catalog, pg_temp"),
    (c"standard_conforming_strings", "on"),
    (c"quote_all_identifiers", "off"),
    (c"row_security", "off"),
    (c"check_function_bodies", "off"),
    (c"jit", "off"),
];

/// The longest wait for a lock on objects of other roles, which could hold the lock as long as they
/// like.
const LOCK_LIMIT: Duration = Duration::from_secs(10);

/// The `lock_timeout` of the session, if it has one.
pub fn lock_timeout() -> Option<Duration> {
    // SAFETY: the variable of the setting. 0 is no limit.
    let ms = unsafe { pg_sys::LockTimeout };
    (ms > 0).then(|| Duration::from_millis(ms as u64))
}

/// This limit, or that of the session if that is shorter.
pub fn shorter_lock_timeout(limit: Duration) -> Duration {
    lock_timeout().map_or(limit, |of_session| of_session.min(limit))
}

/// The limit for objects of other roles, or that of the session if that is shorter.
pub fn lock_limit() -> Duration {
    shorter_lock_timeout(LOCK_LIMIT)
}

/// Runs `f`, in which each wait for a lock has the limit [`lock_limit`].
pub fn with_lock_limit<T>(f: impl FnOnce() -> T) -> T {
    with_lock_timeout(lock_limit(), f)
}

/// Runs `f`, in which each wait for a lock has this limit, to the millisecond.
pub fn with_lock_timeout<T>(limit: Duration, f: impl FnOnce() -> T) -> T {
    // 0 would be no limit.
    with(&[(c"lock_timeout", &limit.as_millis().max(1).to_string())], f)
}

/// Limits each later wait for a lock, until the settings of the innermost [`with`] end. It must be
/// called within one.
pub fn limit_later_waits(limit: Duration) {
    let limit = shorter_lock_timeout(limit).as_millis().max(1).to_string();
    // SAFETY: `with` has begun a nesting level, and ends it.
    unsafe { set(c"lock_timeout", &limit, pg_sys::GucAction::GUC_ACTION_SAVE) }
}

/// Runs `f` with [`OWN_SETTINGS`] and the limit of [`with_lock_limit`].
pub fn with_own_settings_and_limit<T>(f: impl FnOnce() -> T) -> T {
    with(OWN_SETTINGS, || with_lock_limit(f))
}

/// Shows the tables that store the rows of Citus's distributed tables. Citus hides them from
/// queries on `pg_class`, but not in sessions that it has opened itself.
pub const ALL_TABLES: (&CStr, &str) = (c"citus.override_table_visibility", "off");

/// Runs `f` with these settings, apart from those of an extension that is not loaded. An error
/// resets them as well.
pub fn with<T>(settings: &[(&CStr, &str)], f: impl FnOnce() -> T) -> T {
    // SAFETY: as for a function with SET clauses. Names and values are copied. An error ends the
    // nesting with the transaction or subtransaction.
    unsafe {
        let nesting = pg_sys::NewGUCNestLevel();
        for (name, value) in settings.iter().filter(|(name, _)| exists(name)) {
            set(name, value, pg_sys::GucAction::GUC_ACTION_SAVE);
        }
        let result = f();
        pg_sys::AtEOXact_GUC(true, nesting);
        result
    }
}

/// Sets a setting until the transaction ends.
pub fn set_local(name: &CStr, value: &str) {
    // SAFETY: as for SET LOCAL in a function.
    unsafe { set(name, value, pg_sys::GucAction::GUC_ACTION_LOCAL) }
}

/// # Safety
///
/// To save the former value, there must be a nesting level that ends.
unsafe fn set(name: &CStr, value: &str, action: pg_sys::GucAction::Type) {
    // SAFETY: name and value are copied. An error ends the change with the transaction.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_pg_cstr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            action,
            true,
            0,
            false,
        );
    }
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
    // Only superusers can set it, because other sessions of the node wait for as long.
    GucRegistry::define_int_guc(
        c"instagram_id.take_over_timeout",
        c"Time in which a node of a Citus cluster must have taken a sequence over.",
        c"It includes the wait for another session of this node that does the same.",
        &TAKE_OVER_TIMEOUT,
        100,
        i32::MAX,
        GucContext::Suset,
        GucFlags::UNIT_MS,
    );
    // Only superusers can set it, because ids in no table can then be out of order.
    GucRegistry::define_bool_guc(
        c"instagram_id.continue_without_lost_nodes",
        c"Whether ids continue if other nodes of a Citus cluster are lost.",
        c"Ids that are in no table can then be out of order, and repeat if clocks differ by a minute.",
        &CONTINUE_WITHOUT_LOST_NODES,
        GucContext::Suset,
        GucFlags::default(),
    );
    // SAFETY: called while the library is loaded. From then on, setting an unknown instagram_id.*
    // is an error.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"instagram_id".as_ptr()) }
}
