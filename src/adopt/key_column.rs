//! The column whose default `adopt_table` replaces: what generates its keys, and the statements
//! there and back.

use crate::adopt::references;
use crate::error::Error;
use crate::pg::catalog::{self, BaseTypes};
use crate::pg::default::default_of;
use crate::pg::names;
use crate::pg::parsed_body::Expression;
use crate::pg::spi::{self, select};
use crate::sequence::placement;
use crate::sequence::read;
use crate::shard::columns::{
    Column, columns_with_currval, columns_with_default_on, columns_with_nextval, defaults_of,
    newest_serial_key,
};
use crate::shard::definition::{self, Definition};
use crate::shard::generated::{self, Generated};
use crate::shard::trust::Trust;
use instagram_id_core::epoch::Epoch;
use instagram_id_core::hlc::State;
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::{self, Oid};
use pgrx::spi::{quote_identifier, quote_literal, quote_qualified_identifier};

/// A bigint column with keys that `adopt_table` can continue.
pub struct KeyColumn {
    pub column: Column,
    pub keys: Keys,
    /// The sequence that belongs to the column.
    owned: Option<Oid>,
    /// The sequences that the keys come from.
    pub sources: Vec<Oid>,
    /// Whether it can have been an identity, of this table alone: not if it is nullable, comes from
    /// a table above, whose keys it shares, or has partitions, whose defaults would be lost.
    fits_identity: bool,
}

/// The source of the keys of a column.
pub enum Keys {
    /// A default, which this statement gives the column again. `None` if there is no such
    /// statement, or if the default generates ids of this shard in another form, such as from
    /// another sequence, and could repeat its ids.
    Default(Option<String>),
    /// An identity, with the clause that creates it again.
    Identity(String),
    /// The shard already.
    Shard,
}

/// The call in a default that generates keys.
struct Generator {
    /// The statement that gives the column this default again. For `next_id()` of another shard it
    /// is a call of `adopt_table`, with its checks: its owner could replace the function, or
    /// another role create one of its name. `None` for a function of another name.
    restore: Option<String>,
    /// The shard whose ids it generates, if the default or the function has its number.
    shard: Option<Shard>,
    /// The epoch of these ids, if it can be determined.
    epoch: Option<Epoch>,
}

impl KeyColumn {
    /// The column of that name, or without a name the only column of the table's primary key.
    pub fn find(
        table: Oid,
        name: Option<String>,
        definition: &Definition,
        own_schema: Oid,
    ) -> Result<KeyColumn, Error> {
        let found = Found::read(table, name)?;
        found.check_type()?;
        references::check(&found.column)?;
        let generator = found.generator(own_schema);
        let Found {
            column, default, is_generated, identity, owned, sources, fits_identity, ..
        } = found;
        let keys = match (default, identity.as_str(), owned) {
            (None, "a", Some(owned)) => {
                Keys::Identity(identity_clause("ALWAYS", &options_of(owned)?))
            }
            (None, "d", Some(owned)) => {
                Keys::Identity(identity_clause("BY DEFAULT", &options_of(owned)?))
            }
            (Some(default), ..) if defaults_of(definition, own_schema).contains(&default) => {
                Keys::Shard
            }
            (Some(_), ..) if let Some(generator) = generator => {
                check_epoch(&column, &generator, definition)?;
                let is_of_shard = generator.shard == Some(definition.shard);
                Keys::Default(generator.restore.filter(|_| !is_of_shard))
            }
            _ if is_generated => return Err(Error::KeyGenerated(column.qualified())),
            (default, ..) => {
                return Err(Error::NotSerial { column: column.qualified(), default });
            }
        };
        let sources = match keys {
            Keys::Identity(_) => owned.into_iter().collect(),
            _ => sources,
        };
        Ok(KeyColumn { column, keys, owned, sources, fits_identity })
    }

    /// The sequence that [`change`](Self::change) drops.
    pub fn dropped_sequence(&self) -> Option<Oid> {
        self.owned.filter(|_| matches!(self.keys, Keys::Identity(_)))
    }

    /// Whether the partitions of the table share its identity.
    pub fn changes_partitions(&self) -> bool {
        matches!(self.keys, Keys::Identity(_)) && shares_identity(self.column.table)
    }

    /// The statement that gives the column ids of the shard in this schema.
    pub fn change(&self, schema: &str) -> String {
        let is_identity = matches!(self.keys, Keys::Identity(_));
        let (alter, name) = alter(&self.column, is_identity);
        let drop = if is_identity { format!(" DROP IDENTITY, ALTER {name}") } else { "".into() };
        format!("{alter}{drop} SET DEFAULT {schema}.next_id()")
    }

    /// The statement that undoes this. If the column has ids of the shard already, it is derived
    /// from what is left of the former keys: the sequence of a serial, or the keys of an identity,
    /// whose options are gone.
    pub fn way_back(&self) -> Result<Option<String>, Error> {
        let identity = |clause: &str| {
            let (alter, name) = alter(&self.column, true);
            format!("{alter} DROP DEFAULT, ALTER {name} {clause}")
        };
        Ok(match &self.keys {
            Keys::Default(restore) => restore.clone(),
            Keys::Identity(clause) => Some(identity(clause)),
            Keys::Shard => {
                let newest = newest_serial_key(&self.column)?;
                match self.owned.filter(|sequence| definition::served_by(*sequence).is_empty()) {
                    // Otherwise the keys come from another one.
                    Some(sequence) if continues(sequence, newest) => {
                        let sequence = quote_literal(names::relation(sequence));
                        let alter = alter(&self.column, false).0;
                        Some(format!("{alter} SET DEFAULT nextval({sequence}::regclass)"))
                    }
                    None if self.fits_identity => newest.map(|key| {
                        identity(&identity_clause("BY DEFAULT", &format!("START WITH {}", key + 1)))
                    }),
                    _ => None,
                }
            }
        })
    }

    /// Checks that no default and no rule repeats the value that a sequence of the keys has given
    /// to the session, which would not be that of the last key any more. A NOTICE names one of an
    /// owner who may not use the sequence: such a role must not prevent an adoption.
    pub fn check_sources(&self) -> Result<(), Error> {
        for oid in &self.sources {
            let sequence = || names::relation(*oid);
            let going_on = self.columns_that_go_on_with(*oid);
            if let Some(by) = repeating(*oid, true, &going_on) {
                return Err(Error::KeyRepeated { sequence: sequence(), by });
            }
            if let Some(by) = repeating(*oid, false, &going_on) {
                let notice = Error::KeyRepeatedByOther { sequence: sequence(), by };
                notice.notice();
            }
        }
        Ok(())
    }

    /// The columns of other tables of this name that continue with keys from the sequence. In their
    /// tables `currval()` goes on as well, in the columns after them: PostgreSQL evaluates defaults
    /// in the order of the columns.
    fn columns_that_go_on_with(&self, sequence: Oid) -> Vec<Column> {
        let mut columns = columns_with_nextval(sequence);
        columns.retain(|it| it.table != self.column.table && it.name == self.column.name);
        columns
    }

    /// Drops the sequence of the former keys, unless another default uses it.
    pub fn drop_sequence(&self) -> Result<(), Error> {
        let exists = |sequence: &Oid| catalog::relation(*sequence).is_some();
        // An identity has taken its sequence with it.
        let Some(sequence) = self.owned.filter(exists) else { return Ok(()) };
        if !columns_with_default_on(sequence).is_empty() {
            return Ok(());
        }
        let name = names::relation(sequence);
        spi::run(&format!("DROP SEQUENCE {name}"));
        if exists(&sequence) { Err(Error::TableChanged(name)) } else { Ok(()) }
    }
}

/// The beginning of ALTER TABLE for a column, and its quoted name. Tables below keep their
/// defaults, apart from partitions that share an identity.
fn alter(column: &Column, is_identity: bool) -> (String, String) {
    let only = if is_identity && shares_identity(column.table) { "" } else { "ONLY " };
    let (table, name) = (names::relation(column.table), quote_identifier(&column.name));
    (format!("ALTER TABLE {only}{table} ALTER {name}"), name)
}

/// Whether partitions have the identity of this table, as from PostgreSQL 17 on.
fn shares_identity(table: Oid) -> bool {
    let is_since_17 = cfg!(not(any(feature = "pg15", feature = "pg16")));
    is_since_17 && is_partitioned(table)
}

fn is_partitioned(table: Oid) -> bool {
    catalog::relation(table).is_some_and(|relation| relation.is_partitioned)
}

/// The call that makes ids of a shard the default of a column. It names the schema if the owner of
/// the table trusts the owner of the schema for that only, as the default did. `None` if the owner
/// of the table does not trust the shard, or if the call would find another one of the number.
fn adopting(column: &Column, shard: &Definition, own_schema: Oid) -> Option<String> {
    let table = catalog::relation(column.table)?;
    let trusts =
        |named| Trust::of_table(&table, shard.schema, named).accepts(shard.schema, shard.owner);
    let is_found = definition::find(shard.shard).is_ok_and(|found| found.as_ref() == Some(shard));
    let schema = match (trusts(false), trusts(true)) {
        (true, _) if is_found => "NULL".into(),
        (false, true) => quote_literal(names::raw_schema(shard.schema)),
        _ => return None,
    };
    let [table, name] = [names::relation(column.table), column.name.clone()].map(quote_literal);
    let (own_schema, number) = (names::schema(own_schema), shard.shard.number());
    // With all arguments and their types, so that it is no call of another function of this name.
    Some(format!(
        "SELECT {own_schema}.adopt_table({number}, {table}::regclass, {name}::text, false, {schema}::text)"
    ))
}

/// A default that may call `currval()` on the sequence, or a rule that names it, of an owner who
/// has the right to do so, or of one who does not.
fn repeating(sequence: Oid, has_right: bool, going_on: &[Column]) -> Option<String> {
    let mut columns = columns_with_currval(sequence, has_right).into_iter();
    let number = |it: &Column| catalog::column_number(it.table, &it.name);
    let goes_on = |it: &Column| {
        let is_before = |key: &Column| key.table == it.table && number(key) < number(it);
        going_on.iter().any(is_before)
    };
    let default = columns
        .find(|it| !goes_on(it))
        .map(|it| format!("the default of column {}", it.qualified()));
    default.or_else(|| rule_naming(sequence, has_right))
}

fn rule_naming(sequence: Oid, has_right: bool) -> Option<String> {
    let query = "SELECT w.rulename::text, w.ev_class FROM pg_depend AS d JOIN pg_rewrite AS w ON w.oid = d.objid
             JOIN pg_class AS c ON c.oid = w.ev_class
         WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = $1
         AND w.ev_type <> '1' AND has_sequence_privilege(c.relowner, $1, 'USAGE, SELECT') = $2 ORDER BY w.oid LIMIT 1";
    let rule = |name: String, table| {
        format!("rule {} of relation {}", quote_identifier(name), names::relation(table))
    };
    let arguments = [sequence.into(), has_right.into()];
    select(query, &arguments, |row| Some(rule(row.get(1)?, row.get(2)?))).pop()
}

/// The columns of a table's primary key that a serial or an identity fills.
pub fn own_keys(table: Oid) -> Vec<String> {
    let query = "SELECT a.attname::text FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid
             AND a.attnum = ANY ((i.indkey::int2[])[:i.indnkeyatts - 1])
         WHERE i.indrelid = $1 AND i.indisprimary
         AND EXISTS (SELECT FROM pg_depend AS d JOIN pg_class AS s ON s.oid = d.objid
             WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid
             AND d.refobjsubid = a.attnum AND d.classid = 'pg_class'::regclass
             AND d.deptype IN ('a', 'i') AND s.relkind = 'S')
         ORDER BY a.attnum";
    select(query, &[table.into()], |row| row.get(1))
}

/// The column as the catalogs show it.
struct Found {
    column: Column,
    number: pg_sys::AttrNumber,
    type_oid: Oid,
    type_name: String,
    default: Option<String>,
    is_generated: bool,
    /// `attidentity`: `a` for ALWAYS, `d` for BY DEFAULT.
    identity: String,
    /// The sequence of the identity, or one that belongs to the column.
    owned: Option<Oid>,
    /// The sequences on which the default depends.
    sources: Vec<Oid>,
    fits_identity: bool,
}

impl Found {
    fn read(table: Oid, name: Option<String>) -> Result<Found, Error> {
        // Without a table, which only generated columns need, pg_get_expr() takes no lock.
        let query = "SELECT a.attname::text, a.atttypid, format_type(a.atttypid, a.atttypmod),
                 CASE a.attgenerated WHEN '' THEN pg_get_expr(f.adbin, 0::oid) END, a.attidentity::text,
                 (SELECT d.objid FROM pg_depend AS d JOIN pg_class AS s ON s.oid = d.objid
                  WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum
                  AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i') AND s.relkind = 'S'
                  ORDER BY d.deptype DESC, d.objid LIMIT 1),
                 ARRAY(SELECT d.refobjid FROM pg_depend AS d JOIN pg_class AS s ON s.oid = d.refobjid
                     WHERE d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
                     AND d.refclassid = 'pg_class'::regclass AND s.relkind = 'S' ORDER BY 1),
                 a.attnum, a.attinhcount = 0 AND a.attnotnull, a.attgenerated <> ''
             FROM pg_attribute AS a
             LEFT JOIN pg_attrdef AS f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
             WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
             AND CASE WHEN $2 IS NOT NULL THEN a.attname = $2
                 ELSE EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisprimary
                     AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum) END";
        let found = select(query, &[table.into(), name.clone().into()], |row| {
            let column = Column { table, name: row.get(1)?, is_bigint: true };
            Some(Found {
                column,
                type_oid: row.get(2)?,
                type_name: row.get(3)?,
                default: row.get(4),
                identity: row.get(5)?,
                owned: row.get(6),
                sources: row.get(7)?,
                number: row.get(8)?,
                fits_identity: row.get::<bool>(9)? && !is_partitioned(table),
                is_generated: row.get(10)?,
            })
        });
        let table = names::relation(table);
        found.into_iter().next().ok_or_else(|| match name {
            Some(name) => Error::ColumnMissing { table, column: quote_identifier(name) },
            None => Error::NoPrimaryKey(table),
        })
    }

    /// The call in the default, if that is nothing but a call with constants. The way back contains
    /// it, and to read other constants could run code of the owner of the table: a CHECK of a
    /// domain.
    fn generator(&self, own_schema: Oid) -> Option<Generator> {
        let constants = [pg_sys::INT4OID, pg_sys::REGCLASSOID, pg_sys::TIMESTAMPTZOID];
        let default = default_of(self.column.table, self.number)?;
        let (callee, arguments) = default.call_with_constants(&constants)?;
        let constants: Vec<String> = arguments.iter().map(|one| written(*one)).collect();
        // Written so that it means the same with any settings of a session.
        let set_default = |name: &str| {
            let alter = alter(&self.column, false).0;
            format!("{alter} SET DEFAULT {name}({})", constants.join(", "))
        };
        if callee.to_u32() == pg_sys::F_NEXTVAL {
            let restore = Some(set_default("nextval"));
            return Some(Generator { restore, shard: None, epoch: None });
        }
        let function = catalog::function(callee)?;
        let generated = generated::by_call(&function, &arguments, own_schema)?;
        let schema = names::raw_schema(function.schema);
        let restore = match generated {
            Generated::Function(shard, sequence) => {
                let shard = definition::in_schema_by_number(function.schema, shard);
                shard
                    .filter(|it| function.name == "next_id" && it.sequence == sequence)
                    .and_then(|it| adopting(&self.column, &it, own_schema))
            }
            _ => Some(set_default(&quote_qualified_identifier(&schema, &function.name))),
        };
        let (shard, epoch) = match generated {
            Generated::Function(shard, sequence) => (Some(shard), Some(sequence.epoch)),
            Generated::Setting => (None, None),
            // A number without a shard, or with several, generates no ids.
            Generated::Number(shard) => {
                let found = shard.and_then(|shard| definition::find(shard).ok()?);
                (shard, found.map(|it| it.sequence.epoch))
            }
            Generated::Sequence(shard, epoch) => (shard, epoch),
            Generated::Node(epoch) => (Shard::new(placement::local_group()), epoch),
        };
        Some(Generator { restore, shard, epoch })
    }

    fn check_type(&self) -> Result<(), Error> {
        let Column { table, name, .. } = &self.column;
        if self.type_oid == pg_sys::INT8OID {
            return Ok(());
        }
        let base = BaseTypes::default().of(self.type_oid);
        let is_integer = [pg_sys::INT2OID, pg_sys::INT4OID, pg_sys::INT8OID].contains(&base);
        let (table, column) = (names::relation(*table), quote_identifier(name));
        Err(Error::ColumnNotBigint { table, column, type_name: self.type_name.clone(), is_integer })
    }
}

/// A constant of the types that [`Found::generator`] accepts.
fn written(constant: Expression) -> String {
    if let Some(number) = constant.constant(pg_sys::INT4OID) {
        return (number.value() as i32).to_string();
    }
    if let Some(sequence) = constant.oid(pg_sys::REGCLASSOID) {
        return format!("{}::regclass", quote_literal(names::relation(sequence)));
    }
    let time = constant.time().map(names::time_in_utc).unwrap_or_default();
    format!("{}::timestamptz", quote_literal(time))
}

/// Checks that the ids of a default count from the epoch of the shard that the column gets ids of.
fn check_epoch(
    column: &Column,
    generator: &Generator,
    definition: &Definition,
) -> Result<(), Error> {
    match generator.epoch.filter(|epoch| *epoch != definition.sequence.epoch) {
        None => Ok(()),
        Some(epoch) => Err(Error::EpochOfKeysDiffers {
            column: column.qualified(),
            epoch: names::time_in_utc(epoch.at()),
            shard: definition.shard.number(),
            is: names::time_in_utc(definition.sequence.epoch.at()),
        }),
    }
}

fn identity_clause(kind: &str, options: &str) -> String {
    format!("ADD GENERATED {kind} AS IDENTITY ({options})")
}

/// The next value of a sequence that belongs to a column, if it does not end before.
fn next_of(sequence: Oid, increment: i64) -> Option<i64> {
    let State { last_value, is_called } = read::state_of_identity(sequence)?;
    Some(last_value.saturating_add(if is_called { increment } else { 0 }))
}

/// Whether the next value of a sequence that belongs to a column is greater than all these keys.
fn continues(sequence: Oid, newest: Option<i64>) -> bool {
    catalog::sequence_options(sequence)
        .and_then(|options| next_of(sequence, options.seqincrement))
        .is_some_and(|next| Some(next) > newest)
}

/// The options to create a sequence with that continues this one. One that has ended gets a value
/// more, since its last one would repeat a key.
fn options_of(sequence: Oid) -> Result<String, Error> {
    let missing = || Error::SequenceMissing(sequence);
    let options = catalog::sequence_options(sequence).ok_or_else(missing)?;
    let (increment, min, max) = (options.seqincrement, options.seqmin, options.seqmax);
    let cycles = options.seqcycle != 0;
    let next = match next_of(sequence, increment).ok_or_else(missing)? {
        next if !cycles || (min..=max).contains(&next) => next,
        _ if increment > 0 => min,
        _ => max,
    };
    Ok(format!(
        "START WITH {next} INCREMENT BY {increment} MINVALUE {} MAXVALUE {} CACHE {}{}",
        next.min(min),
        next.max(max),
        options.seqcache,
        if cycles { " CYCLE" } else { "" }
    ))
}
