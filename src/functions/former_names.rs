//! The C symbols that the scripts of earlier versions name. A database that was created by such a script keeps them, also
//! after ALTER EXTENSION UPDATE: sessions that have loaded the library of that version know no others.

use pgrx::pg_sys::{Datum, FunctionCallInfo, Pg_finfo_record};

/// Exports the function `$new` under the name `$old`, too.
macro_rules! former_name {
    ($old:ident, $old_info:ident, $new:ident, $new_info:ident) => {
        unsafe extern "C-unwind" {
            fn $new(fcinfo: FunctionCallInfo) -> Datum;
        }
        unsafe extern "C" {
            fn $new_info() -> *const Pg_finfo_record;
        }

        /// # Safety
        ///
        /// Called by PostgreSQL.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $old(fcinfo: FunctionCallInfo) -> Datum {
            // SAFETY: pgrx defines that function for the same caller.
            unsafe { $new(fcinfo) }
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $old_info() -> *const Pg_finfo_record {
            // SAFETY: returns a static.
            unsafe { $new_info() }
        }
    };
}

former_name!(
    create_partitions_wrapper,
    pg_finfo_create_partitions_wrapper,
    create_id_partitions_wrapper,
    pg_finfo_create_id_partitions_wrapper
);
former_name!(
    drop_partitions_wrapper,
    pg_finfo_drop_partitions_wrapper,
    drop_old_id_partitions_wrapper,
    pg_finfo_drop_old_id_partitions_wrapper
);
former_name!(
    create_id_triggers_wrapper,
    pg_finfo_create_id_triggers_wrapper,
    convert_defaults_to_triggers_wrapper,
    pg_finfo_convert_defaults_to_triggers_wrapper
);
former_name!(
    assign_id_wrapper,
    pg_finfo_assign_id_wrapper,
    next_id_trigger_wrapper,
    pg_finfo_next_id_trigger_wrapper
);
former_name!(
    shard_problem_wrapper,
    pg_finfo_shard_problem_wrapper,
    shard_reason_wrapper,
    pg_finfo_shard_reason_wrapper
);
