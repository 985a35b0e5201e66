//! Keeps code of other roles from running in the session.
//!
//! Before PostgreSQL calls a function that is not built in, or puts its body in the place of a call,
//! it asks a hook. So this sees all such calls, also those that no dependency shows, such as the
//! cast of a foreign key's values or the negator of an operator, and whatever was changed before.

use crate::error::{Error, or_raise};
use crate::pg::catalog;
use crate::pg::{names, roles};
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Oid};
use std::cell::Cell;

/// What is refused: functions of roles without the rights of the caller, who changes a table.
#[derive(Clone, Copy)]
struct Refusal {
    caller: Oid,
    table: Oid,
    owner: Oid,
}

thread_local! {
    static REFUSAL: Cell<Option<Refusal>> = const { Cell::new(None) };
    static IS_INSTALLED: Cell<bool> = const { Cell::new(false) };
    /// The hook that another library has installed before.
    static OTHER_HOOK: Cell<pg_sys::needs_fmgr_hook_type> = const { Cell::new(None) };
}

/// Restores what was refused before, also after an error.
struct Outer(Option<Refusal>);

impl Drop for Outer {
    fn drop(&mut self) {
        REFUSAL.set(self.0);
    }
}

/// Runs `f`, which changes a table, as the table's owner. If that lacks the rights of the caller, a
/// function of a role without these rights raises an error in its place.
pub fn as_owner<T>(table: Oid, owner: Oid, f: impl FnOnce() -> T) -> T {
    let caller = catalog::current_role();
    if catalog::has_rights_of(owner, caller) {
        return roles::as_role(owner, f);
    }
    if !IS_INSTALLED.replace(true) {
        // SAFETY: a variable of the backend, which has one thread. Libraries are never unloaded.
        unsafe {
            OTHER_HOOK.set(pg_sys::needs_fmgr_hook);
            pg_sys::needs_fmgr_hook = Some(needs_hook);
        }
    }
    let _outer = Outer(REFUSAL.replace(Some(Refusal { caller, table, owner })));
    roles::as_role(owner, f)
}

/// Called by PostgreSQL when it looks up a function to call it, or to inline it.
#[pg_guard]
unsafe extern "C-unwind" fn needs_hook(function: Oid) -> bool {
    if let Some(refusal) = REFUSAL.get() {
        or_raise(|| check(refusal, function));
    }
    // SAFETY: the other hook gets what it expects.
    OTHER_HOOK.get().is_some_and(|other| unsafe { other(function) })
}

fn check(Refusal { caller, table, owner }: Refusal, oid: Oid) -> Result<(), Error> {
    let Some(function) = catalog::function(oid) else { return Ok(()) };
    // Superusers make event triggers.
    let is_of_event = function.returns == pg_sys::EVENT_TRIGGEROID;
    if is_of_event || catalog::has_rights_of(function.owner, caller) {
        return Ok(());
    }
    Err(Error::CodeOfAnother {
        table: names::relation(table),
        what: format!("function {}", names::function(oid)),
        author: names::role(function.owner),
        owner: names::role(owner),
    })
}
