//! The script of the extension declares the functions of the library as Rust defines them. pgrx
//! would check that if it generated the script.

use instagram_id_live::*;
use std::collections::BTreeMap;
use std::fs;
use syn::{FnArg, GenericArgument, Ident, Item, ItemFn, PathArguments, ReturnType, Token, Type};

/// A SQL type, and whether the Rust type has a value for NULL.
struct SqlType(String, bool);

/// The last part of a type's path, and its generic arguments.
fn path_of(ty: &Type) -> Option<(&Ident, Vec<&Type>)> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(generic) = &last.arguments else {
        return Some((&last.ident, vec![]));
    };
    let types = generic.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    Some((&last.ident, types.collect()))
}

/// The type of an argument or a column; `None` for one that SQL does not know of.
fn sql_type(ty: &Type) -> Option<SqlType> {
    if let Type::Reference(reference) = ty {
        return sql_type(&reference.elem);
    }
    // Bytes of a text, which need not be UTF-8. No function has a bytea.
    if let Type::Slice(_) = ty {
        return Some(SqlType("text".into(), false));
    }
    let (name, generic) = path_of(ty).expect("a named type");
    let sql = match name.to_string().as_str() {
        "Option" => return sql_type(generic[0]).map(|SqlType(sql, _)| SqlType(sql, true)),
        "FunctionCallInfo" => return None,
        "i32" => "integer",
        "i64" => "bigint",
        "bool" => "boolean",
        "str" | "String" | "Word" => "text",
        "TimestampWithTimeZone" => "timestamp with time zone",
        "Regclass" => "regclass",
        "Regnamespace" => "regnamespace",
        "Regprocedure" => "regprocedure",
        "Internal" => "internal",
        "EventTrigger" => "event_trigger",
        other => panic!("the SQL type of {other} is not known to this test"),
    };
    Some(SqlType(sql.into(), false))
}

/// `name!(column, Type)`
struct Column(String, Type);

impl syn::parse::Parse for Column {
    fn parse(input: syn::parse::ParseStream) -> syn::Result<Column> {
        let name: Ident = input.parse()?;
        input.parse::<Token![,]>()?;
        Ok(Column(name.to_string(), input.parse()?))
    }
}

/// The result, as `pg_get_function_result` shows it.
fn result_of(ty: &Type) -> String {
    if let Type::Tuple(columns) = ty {
        let columns: Vec<String> = columns.elems.iter().map(column).collect();
        return if columns.is_empty() {
            "void".into()
        } else {
            format!("TABLE({})", columns.join(", "))
        };
    }
    match path_of(ty).map(|(name, generic)| (name.to_string(), generic)) {
        Some((name, generic)) if ["Result", "TableIterator"].contains(&name.as_str()) => {
            result_of(generic[0])
        }
        Some((name, generic)) if name == "SetOfIterator" => {
            format!("SETOF {}", result_of(generic[0]))
        }
        _ => sql_type(ty).expect("a SQL type").0,
    }
}

fn column(ty: &Type) -> String {
    let Type::Macro(column) = ty else { panic!("a column without name!()") };
    let Column(name, ty) = column.mac.parse_body().expect("name!(column, Type)");
    format!("{name} {}", sql_type(&ty).expect("a SQL type").0)
}

/// Types of the arguments, STRICT and result, as [`DECLARED`] shows them.
fn signature(function: &ItemFn) -> String {
    let arguments = function.sig.inputs.iter().filter_map(|argument| match argument {
        FnArg::Typed(argument) => sql_type(&argument.ty),
        FnArg::Receiver(_) => None,
    });
    let arguments: Vec<SqlType> = arguments.collect();
    // Without STRICT, pgrx would raise an internal error for a NULL that Rust has no value for.
    let strict = arguments.iter().any(|SqlType(_, is_nullable)| !is_nullable);
    let types: Vec<&str> = arguments.iter().map(|SqlType(name, _)| name.as_str()).collect();
    let result = match &function.sig.output {
        ReturnType::Default => "void".into(),
        ReturnType::Type(_, ty) => result_of(ty),
    };
    // A function of SQL cannot return a pointer without taking one. A trigger's is that to a row.
    let result = if result == "internal" && types.is_empty() { "trigger".into() } else { result };
    format!("({}){} returns {result}", types.join(", "), if strict { " strict" } else { "" })
}

/// The functions in these sources that SQL can call, by their symbol in the library.
fn exported() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for folder in ["src/functions", "src/adopt"] {
        for entry in fs::read_dir(of_project(folder)).unwrap() {
            let file =
                syn::parse_file(&fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap();
            let functions = file.items.iter().filter_map(|item| match item {
                Item::Fn(function) => Some(function),
                _ => None,
            });
            for function in
                functions.filter(|it| it.attrs.iter().any(|it| it.path().is_ident("pg_extern")))
            {
                found.insert(format!("{}_wrapper", function.sig.ident), signature(function));
            }
        }
    }
    found
}

/// Each function in C of a list of OIDs, which follows: its symbol, whether it is a window
/// function, how it is declared, and its name.
const DECLARED: &str = "
    SELECT concat_ws(' | ', prosrc, prokind,
                     format('(%s)%s returns %s',
                            (SELECT string_agg(format_type(type, NULL), ', ' ORDER BY n)
                             FROM unnest(proargtypes) WITH ORDINALITY AS arguments (type, n)),
                            CASE WHEN proisstrict THEN ' strict' END, pg_get_function_result(pg_proc.oid)),
                     pg_proc.oid::regprocedure)
    FROM pg_proc
    WHERE prolang = (SELECT oid FROM pg_language WHERE lanname = 'c') AND oid IN";

#[test]
fn script_declares_the_functions_of_the_library() {
    let (_server, mut client) = with_extension();
    let exported = exported();
    let declared = texts(&mut client, &format!("{DECLARED} ({MEMBER_FUNCTIONS})"));
    assert!(declared.len() > 30, "{declared:?}");
    for line in declared {
        let [symbol, kind, declared, name] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let defined =
            exported.get(symbol).unwrap_or_else(|| panic!("{name}: src has no function {symbol}"));
        // A window function reads its arguments from the window.
        if kind != "w" {
            assert_eq!(declared, defined, "{name}: the script, and the function in Rust");
        }
    }
    let script = fs::read_to_string(of_project("sql/instagram_id--1.0.0.sql")).unwrap();
    let unused: Vec<&String> =
        exported.keys().filter(|it| !script.contains(&format!("'{it}'"))).collect();
    assert!(unused.is_empty(), "functions in Rust that the script does not name: {unused:?}");
}

/// Any role may use the schema public, and call GRANT, which locks its row even without effect.
#[test]
fn grant_of_another_role_does_not_keep_the_script_waiting() {
    let server = Server::start(&[("fsync", "off")]);
    let (mut client, mut other) = (server.connect(), server.connect());
    let grant = "CREATE ROLE other; SET ROLE other; BEGIN; GRANT USAGE ON SCHEMA public TO other";
    run(&mut other, grant);
    run(&mut client, "SET statement_timeout = '60 s'");
    let (code, message, _) = error_of(&mut client, "CREATE EXTENSION instagram_id");
    assert_eq!(code, "55P03", "{message}");
    run(&mut other, "ROLLBACK");
    // The limit is that of the script alone.
    run(&mut client, "SET lock_timeout = '7s'; BEGIN; CREATE EXTENSION instagram_id");
    assert_eq!(one::<String>(&mut client, "SHOW lock_timeout"), "7s");
}
