//! The third part of an adoption: takes the locks, and replaces the function.

use crate::adopt::adoption::{Adoption, changed_meanwhile};
use crate::adopt::rights;
use crate::adopt::writers::{
    TableLock, change_functions, check_tables_of_others, lock_out_writers, lock_tables,
};
use crate::error::Error;
use crate::generator;
use crate::pg::catalog::{self, Function};
use crate::pg::locks;
use crate::pg::names;
use crate::pg::roles;
use crate::pg::spi::{self, select};
use crate::sequence::check::CLOSED_TO_NEXTVAL;
use crate::sequence::placement;
use crate::sequence::read;
use crate::sequence::refusal::Refusal;
use crate::shard::trust::Trust;
use instagram_id_core::hlc::{self, VALUE_MAX};
use instagram_id_core::layout::{self, ISSUED_MS_MAX, SEQ_MAX};
use pgrx::pg_sys::Oid;
use pgrx::spi::quote_qualified_identifier;

impl Adoption {
    /// Takes the locks, finds the newest id, and replaces the function. Returns the newest id with
    /// its column, and the value that all new ids are above.
    pub fn carry_out(&self, trust: Trust) -> Result<(Option<(i64, String)>, i64), Error> {
        locks::lock_schema_in_time(self.function.schema)?;
        // The schema may have got another owner.
        self.check_trust(trust)?;
        let check = || check_tables_of_others(&self.function, &self.columns);
        let sequence = [self.sequence.oid];
        lock_out_writers(&self.columns, TableLock::AgainstWriters, &sequence, check)?;
        let newest = self.newest_id()?;
        // Waiting for the locks and reading the tables may have taken a while.
        self.check_unchanged()?;
        let counter = read::last_value(self.sequence.oid).unwrap_or(0);
        let start = self.start(counter, newest.as_ref().map(|newest| newest.0))?;
        let has_copies = self.has_copies();
        // Before the ALTER SEQUENCE, which a rollback undoes: other nodes rely on the takeover.
        if has_copies {
            generator::advance(self.sequence, start)?;
        }
        // This gives the sequence a new file, so that a rollback also undoes the change of the
        // value below.
        spi::run(&self.fix_options_of_sequence(has_copies));
        let above = generator::advance(self.sequence, start)?;
        let kept_before = self.kept_before().map(|kept| kept.oid);
        let changed: Vec<Oid> = kept_before.into_iter().chain([self.function.oid]).collect();
        change_functions(self.parts.shard, &self.function, &changed, || {
            // Again, since the wait for the row of the function can have ended with its change.
            self.check_unchanged()?;
            rights::check_callers(&self.function, self.sequence.oid, self.parts.own_schema)?;
            let statements = self.statements()?;
            roles::as_role(self.function.owner, || {
                statements.iter().for_each(|statement| spi::run(statement));
                self.revoke_from_others();
                self.parts.make_functions(self.function.schema, self.sequence_of_shard())
            })
        })??;
        generator::warn_if_ahead(self.parts.shard, self.sequence.epoch, above);
        Ok((newest, above))
    }

    fn check_unchanged(&self) -> Result<(), Error> {
        if !self.is_unchanged() {
            return Err(changed_meanwhile(&self.function));
        }
        self.check_clock()?;
        self.check_kept_name()
    }

    /// The value that new ids follow. It is later than any id that the original has generated, and
    /// it continues the sequence field.
    fn start(&self, counter: i64, newest: Option<i64>) -> Result<i64, Error> {
        let now_ms = names::now_ms(self.sequence.epoch);
        let newest_ms = newest.filter(|id| *id >= 0).map_or(0, |id| layout::ms_of(id) as i64);
        // The sequence may have been a clock before, and must not go back then. A plain counter is
        // far below the clock. No clock has a value beyond its range, which a closed copy has.
        let clock_ms = if counter <= VALUE_MAX { hlc::ms_of(counter) } else { 0 };
        let ms = now_ms.max(newest_ms).max(clock_ms) + 1;
        if ms > ISSUED_MS_MAX as i64 {
            return Err(Refusal::Exhausted { last_value: counter }.error(self.sequence.oid));
        }
        Ok(hlc::first_of(ms) | (counter & i64::from(SEQ_MAX)))
    }

    /// Whether other nodes of a cluster have copies of the sequence, from a time when its schema
    /// was distributed.
    fn has_copies(&self) -> bool {
        placement::of(self.sequence.oid).has_copies()
    }

    /// A copy keeps its value, because a RESTART would close it.
    fn fix_options_of_sequence(&self, has_copies: bool) -> String {
        format!(
            "ALTER SEQUENCE {} AS pg_catalog.int8 INCREMENT {CLOSED_TO_NEXTVAL} NO MINVALUE NO MAXVALUE NO CYCLE CACHE 1 START 1 OWNED BY NONE{}",
            names::relation(self.sequence.oid),
            if has_copies { "" } else { " RESTART" }
        )
    }

    /// Replaces the function and keeps the original under another name, in place of one that an
    /// earlier adoption has kept. That one is not dropped: any role that may use the schema can
    /// make it needed by a view.
    fn statements(&self) -> Result<Vec<String>, Error> {
        let kept = self.kept_name();
        let quoted = quote_qualified_identifier(&self.parts.schema, &kept);
        Ok(vec![
            self.replace_function()?,
            renamed(&self.function, &kept, self.kept_before().is_some())?,
            format!("REVOKE ALL ON FUNCTION {quoted}() FROM PUBLIC"),
        ])
    }

    /// Default privileges can have given other roles EXECUTE on the kept original.
    fn revoke_from_others(&self) {
        let query = "SELECT DISTINCT grantee::regrole::text FROM pg_proc, aclexplode(proacl)
             WHERE oid = $1 AND grantee NOT IN (0, proowner)";
        let Some(kept) = catalog::function_in(self.function.schema, &self.kept_name(), &[]) else {
            return;
        };
        let others = select(query, &[kept.oid.into()], |row| row.get::<String>(1));
        if !others.is_empty() {
            let (kept, others) = (names::function(kept.oid), others.join(", "));
            spi::run(&format!("REVOKE ALL ON FUNCTION {kept} FROM {others} CASCADE"));
        }
    }

    /// CREATE OR REPLACE keeps OID, owner, grants and comment. Attributes that the statement does
    /// not repeat, such as SECURITY DEFINER, would be lost.
    fn replace_function(&self) -> Result<String, Error> {
        let details = Details::of(&self.function)?;
        Ok(format!(
            "CREATE OR REPLACE FUNCTION {}({}) RETURNS pg_catalog.int8{}\n    {}",
            quote_qualified_identifier(&self.parts.schema, &self.function.name),
            details.arguments,
            if details.security_definer { " SECURITY DEFINER" } else { "" },
            self.parts.next_id(self.sequence)
        ))
    }

    /// The statements of `carry_out`, apart from those for the value of the sequence, as comments.
    /// Run one by one, or by another role, they would be incomplete and unsafe.
    pub fn script(&self) -> Result<String, Error> {
        let mut statements: Vec<String> =
            lock_tables(&self.columns, TableLock::AgainstWriters).into_iter().collect();
        statements.push(self.fix_options_of_sequence(self.has_copies()));
        statements.extend(self.statements()?);
        let others = self.parts.missing_functions_beside(
            &self.function.name,
            self.function.schema,
            self.sequence_of_shard(),
        );
        statements.extend(others.unwrap_or_default().into_iter().map(|part| part.create));
        Ok(names::commented(&statements.join(";\n")))
    }
}

/// The statement that creates a function again under another name.
pub fn renamed(function: &Function, name: &String, or_replace: bool) -> Result<String, Error> {
    let schema = names::raw_schema(function.schema);
    let definition = Details::of(function)?.definition;
    let head = format!(
        "CREATE OR REPLACE FUNCTION {}(",
        quote_qualified_identifier(&schema, &function.name)
    );
    let changed = || changed_meanwhile(function);
    let rest = definition.strip_prefix(&head).ok_or_else(changed)?;
    let create = if or_replace { "CREATE OR REPLACE FUNCTION" } else { "CREATE FUNCTION" };
    Ok(format!("{create} {}({}", quote_qualified_identifier(&schema, name), rest.trim_end()))
}

/// Properties of a function that are not in [`Function`].
struct Details {
    arguments: String,
    definition: String,
    security_definer: bool,
}

impl Details {
    /// It is an error if the function was dropped meanwhile.
    fn of(function: &Function) -> Result<Details, Error> {
        let query = "SELECT pg_get_function_arguments(oid), pg_get_functiondef(oid), prosecdef FROM pg_proc WHERE oid = $1";
        let details = select(query, &[function.oid.into()], |row| {
            Some(Details {
                arguments: row.get(1)?,
                definition: row.get(2)?,
                security_definer: row.get(3)?,
            })
        });
        let changed = || changed_meanwhile(function);
        details.into_iter().next().ok_or_else(changed)
    }
}
