//! Every released version can be installed, used with the current library, and upgraded to the state of a fresh
//! install.

use instagram_id_live::*;

const CURRENT: &str = "SELECT default_version FROM pg_available_extensions WHERE name = 'instagram_id'";

/// All that the extension consists of, as PostgreSQL describes it: functions and views with their definitions, owners,
/// privileges and comments, and the names of all other members.
const CATALOG: &str = "
    WITH member AS (
        SELECT classid, objid FROM pg_depend
        WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass
          AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'instagram_id'))
    SELECT concat_ws(' | ', pg_get_functiondef(objid), proowner::regrole, proacl)
    FROM member JOIN pg_proc ON pg_proc.oid = objid AND classid = 'pg_proc'::regclass
    UNION ALL
    SELECT concat_ws(' | ', pg_get_viewdef(objid), relowner::regrole, relacl, reloptions)
    FROM member JOIN pg_class ON pg_class.oid = objid AND classid = 'pg_class'::regclass
    UNION ALL
    SELECT concat_ws(' | ', attrelid::regclass, attnum, attname, format_type(atttypid, atttypmod), attacl,
                     col_description(attrelid, attnum))
    FROM member JOIN pg_attribute ON attrelid = objid AND classid = 'pg_class'::regclass
    UNION ALL
    SELECT concat_ws(' | ', pg_describe_object(classid, objid, 0), obj_description(objid, classid::regclass::name),
                     (SELECT initprivs FROM pg_init_privs AS i WHERE (i.objoid, i.classoid, i.objsubid) = (objid, classid, 0)))
    FROM member
    UNION ALL
    SELECT concat_ws(' | ', extversion, extnamespace::regnamespace, extowner::regrole, extrelocatable, extconfig, extcondition,
                     obj_description(oid, 'pg_extension'))
    FROM pg_extension WHERE extname = 'instagram_id'
    ORDER BY 1";

/// The user's objects, which an upgrade must not change: functions, sequences, tables, defaults. The definition of a
/// view shows the new names of the objects that it uses.
const OTHERS: &str = "
    SELECT concat_ws(' | ', p.oid::regprocedure, pg_get_functiondef(p.oid), proowner::regrole, proacl,
                     obj_description(p.oid, 'pg_proc'))
    FROM pg_proc AS p
    WHERE p.oid >= 16384 AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = p.oid AND deptype = 'e')
    UNION ALL
    SELECT concat_ws(' | ', c.oid::regclass, relkind, relfilenode, relowner::regrole, relacl, seqtypid::regtype, seqincrement,
                     seqmin, seqmax, seqcycle)
    FROM pg_class AS c LEFT JOIN pg_sequence ON seqrelid = c.oid
    WHERE c.oid >= 16384 AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = c.oid AND deptype = 'e')
    UNION ALL
    SELECT concat_ws(' | ', adrelid::regclass, adnum, pg_get_expr(adbin, adrelid)) FROM pg_attrdef
    ORDER BY 1";

/// The versions in sql/released.
fn released() -> Vec<String> {
    let files = std::fs::read_dir(of_project("sql/released")).unwrap();
    let name = |file: std::io::Result<std::fs::DirEntry>| file.unwrap().file_name().into_string().unwrap();
    let version = |file: String| Some(file.strip_prefix("instagram_id--")?.strip_suffix(".sql")?.to_owned());
    files.map(name).filter_map(version).collect()
}

#[test]
fn upgraded_extension_equals_a_fresh_install() {
    let server = Server::start(&[("fsync", "off")]);
    let mut superuser = server.connect();
    superuser.batch_execute("CREATE ROLE owner LOGIN").unwrap();
    let current: String = one(&mut superuser, CURRENT);
    let versions = released();
    assert!(!versions.is_empty() && !versions.contains(&current));
    // As a superuser in the usual schema, and as the owner of the database in another one, whose name needs quotes.
    for (role, schema) in [("postgres", "public"), ("owner", "\"the \"\"ids\"\"\"")] {
        let open = |database: &str| {
            let mut client = server.config(database).user(role).connect(postgres::NoTls).unwrap();
            client.batch_execute(&format!("SET search_path = {schema}, public")).unwrap();
            client
        };
        let mut create = |database: &str| {
            superuser.batch_execute(&format!("CREATE DATABASE \"{database}\" OWNER {role}")).unwrap();
            let mut client = open(database);
            client.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")).unwrap();
            client
        };
        let fresh = format!("fresh of {role}");
        let mut client = create(&fresh);
        client.batch_execute(&format!("CREATE EXTENSION instagram_id SCHEMA {schema}")).unwrap();
        let expected = sorted(texts(&mut client, CATALOG));
        assert!(expected.len() > 50, "{expected:#?}");

        for version in &versions {
            let database = format!("{version} of {role}");
            let mut client = create(&database);
            // Fails if the library lacks a function that the old script references.
            client
                .batch_execute(&format!(
                    "CREATE EXTENSION instagram_id SCHEMA {schema} VERSION '{version}';
                     SELECT create_shard(5);
                     CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text);
                     CREATE VIEW insta5.state AS SELECT shard, last_id, at_home AS is_here FROM shards;
                     CREATE INDEX ON insta5.photos (id_time(id));
                     GRANT USAGE ON SEQUENCE insta5.table_id_seq TO owner"
                ))
                .unwrap();
            // An hour ahead, so that only the sequence keeps ids apart.
            client.query("SELECT advance_shard(5, make_id(now() + interval '1 hour', 5, 0))", &[]).unwrap();
            let mut other = open(&database);
            let insert =
                "INSERT INTO insta5.photos (title) SELECT '' FROM generate_series(1, 1000) RETURNING id";
            let mut made = column(&mut client, insert);
            made.extend(column(&mut other, insert));
            let others = texts(&mut client, OTHERS);
            assert!(others.len() > 10, "{others:#?}");

            client.batch_execute("ALTER EXTENSION instagram_id UPDATE").unwrap();
            let upgraded =
                texts(&mut client, CATALOG).into_iter().map(|member| with_present_symbols(&member));
            assert_eq!(sorted(upgraded.collect()), expected, "from {version} to {current}");
            assert_eq!(texts(&mut client, OTHERS), others, "from {version} to {current}");
            // A session from before the upgrade, and a new one.
            made.extend(column(&mut other, insert));
            made.extend(column(&mut open(&database), insert));
            assert!(made.is_sorted_by(|one, next| one < next), "{version}");
            let last: i64 = one(&mut client, "SELECT last_id FROM insta5.state WHERE shard = 5 AND is_here");
            assert_eq!(last, *made.last().unwrap());
            println!("{version} to {current}, by {role}: {} ids", made.len());
        }
    }
}

/// Members of the extension that were renamed: class, old name, current name.
const RENAMED: [(&str, &str, &str); 7] = [
    ("regclass", "shards", "id_shards"),
    ("regproc", "shard_states", "_shard_states"),
    ("regproc", "shard_problem", "_shard_reason"),
    ("regproc", "create_partitions", "create_id_partitions"),
    ("regproc", "drop_partitions", "drop_old_id_partitions"),
    ("regproc", "create_id_triggers", "convert_defaults_to_triggers"),
    ("regproc", "assign_id", "next_id_trigger"),
];

/// An upgraded database keeps the C symbols of the version that created a function; see src/functions/former_names.rs.
fn with_present_symbols(member: &str) -> String {
    RENAMED.iter().fold(member.to_owned(), |member, (_, then, now)| {
        let [then, now] =
            [then, now].map(|name| format!("$function${}_wrapper$function$", name.trim_start_matches('_')));
        member.replace(&then, &now)
    })
}

fn sorted(mut members: Vec<String>) -> Vec<String> {
    members.sort_unstable();
    members
}

/// The upgrade changes no C symbol, because sessions that have loaded the library of the last release know no others. A
/// trigger that such a session runs would fail.
#[test]
fn upgrade_keeps_the_symbols_of_the_last_release() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION instagram_id VERSION '0.3.1'").unwrap();
    let symbols =
        "SELECT concat_ws(' ', p.oid, prosrc) FROM pg_proc AS p JOIN pg_language AS l ON l.oid = prolang
         WHERE lanname = 'c' AND p.oid >= 16384 ORDER BY p.oid";
    let before = texts(&mut client, symbols);
    assert!(before.len() > 30, "{before:?}");
    client.batch_execute("ALTER EXTENSION instagram_id UPDATE").unwrap();
    let after = texts(&mut client, symbols);
    let changed: Vec<_> = before.iter().filter(|symbol| !after.contains(symbol)).collect();
    assert!(changed.is_empty(), "{changed:?}");
}

/// Objects that depend on a renamed member, and grants on it, are kept and work.
#[test]
fn renamed_objects_keep_their_dependents_and_grants() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE ROLE app;
             CREATE EXTENSION instagram_id VERSION '0.3.1';
             SELECT create_shard(5);
             CREATE TABLE insta5.photos (id bigint DEFAULT insta5.next_id());
             SELECT create_id_triggers(5);
             CREATE TABLE parts (id bigint) PARTITION BY RANGE (id);
             REVOKE ALL ON FUNCTION create_partitions, drop_partitions, create_id_triggers FROM PUBLIC;
             GRANT EXECUTE ON FUNCTION create_partitions, drop_partitions, create_id_triggers, shard_states TO app;
             GRANT SELECT ON shards TO app;
             CREATE VIEW of_view AS SELECT shard, at_home, problem FROM shards;
             CREATE FUNCTION of_functions() RETURNS SETOF text
                 BEGIN ATOMIC SELECT drop_partitions('parts', now()); SELECT create_partitions('parts')::text; END",
        )
        .unwrap();
    let of = |client: &mut postgres::Client, names: &[(&str, &str)]| -> Vec<String> {
        let row = |(class, name): &(&str, &str)| match *class {
            "regclass" => format!("SELECT oid, relacl FROM pg_class WHERE oid = '{name}'::regclass"),
            _ => format!("SELECT oid, proacl FROM pg_proc WHERE oid = '{name}'::regproc"),
        };
        let query = |name| format!("SELECT concat_ws(' | ', oid, acl) FROM ({}) AS r (oid, acl)", row(name));
        names.iter().map(|name| one(client, &query(name))).collect()
    };
    let before = of(&mut client, &RENAMED.map(|(class, then, _)| (class, then)));
    client.batch_execute("ALTER EXTENSION instagram_id UPDATE").unwrap();
    assert_eq!(of(&mut client, &RENAMED.map(|(class, _, now)| (class, now))), before);
    assert_eq!(texts(&mut client, "SELECT concat(shard, at_home, problem) FROM of_view"), ["5t"]);
    assert_eq!(texts(&mut client, "SELECT * FROM of_functions()").len(), 4);
    client.batch_execute("INSERT INTO insta5.photos DEFAULT VALUES").unwrap();
    assert!(one::<bool>(&mut client, "SELECT id IS NOT NULL FROM insta5.photos"));
    let trigger: String =
        one(&mut client, "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal");
    assert!(trigger.ends_with("EXECUTE FUNCTION next_id_trigger('5', 'id')"), "{trigger}");
}
