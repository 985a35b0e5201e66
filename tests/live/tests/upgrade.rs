//! Every released version can be installed, used with today's library, and upgraded to what a fresh install is.

use instagram_id_live::*;
use postgres::Client;
use std::path::Path;

const CURRENT: &str = "SELECT default_version FROM pg_available_extensions WHERE name = 'instagram_id'";

/// All that the extension consists of, as PostgreSQL describes it: functions and views with their definitions, rights and
/// comments, and the names of everything else.
const CATALOG: &str = "
    WITH member AS (
        SELECT classid, objid FROM pg_depend
        WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass
          AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'instagram_id'))
    SELECT concat_ws(' | ', pg_get_functiondef(objid), proacl, obj_description(objid, 'pg_proc'))
    FROM member JOIN pg_proc ON pg_proc.oid = objid AND classid = 'pg_proc'::regclass
    UNION ALL
    SELECT concat_ws(' | ', pg_get_viewdef(objid), relacl, reloptions, obj_description(objid, 'pg_class'))
    FROM member JOIN pg_class ON pg_class.oid = objid AND classid = 'pg_class'::regclass
    UNION ALL
    SELECT concat_ws(' | ', attrelid::regclass, attnum, attname, format_type(atttypid, atttypmod), attacl,
                     col_description(attrelid, attnum))
    FROM member JOIN pg_attribute ON attrelid = objid AND classid = 'pg_class'::regclass
    UNION ALL
    SELECT pg_describe_object(classid, objid, 0) FROM member
    UNION ALL
    SELECT concat_ws(' | ', extversion, extrelocatable, extconfig, extcondition, obj_description(oid, 'pg_extension'))
    FROM pg_extension WHERE extname = 'instagram_id'
    ORDER BY 1";

/// The versions whose scripts are kept, oldest first.
fn released() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sql/released");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let version = |file: String| file.strip_prefix("instagram_id--")?.strip_suffix(".sql").map(str::to_owned);
    let mut versions: Vec<String> = files.map(|file| version(file).expect("a script of a version")).collect();
    versions.sort_by_key(|version| version.split('.').map(|n| n.parse::<u32>().unwrap()).collect::<Vec<_>>());
    versions
}

fn catalog(client: &mut Client) -> Vec<String> {
    client.query(CATALOG, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

/// The ids that a statement makes.
fn ids(client: &mut Client, statement: &str) -> Vec<i64> {
    client.query(statement, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

#[test]
fn an_upgrade_leads_to_what_a_fresh_install_is() {
    let server = Server::start(&[("fsync", "off")]);
    let database = |name: &str| {
        server.connect().batch_execute(&format!("CREATE DATABASE \"{name}\"")).unwrap();
        server.connect_to(name)
    };
    let mut fresh = database("fresh");
    fresh.batch_execute("CREATE EXTENSION instagram_id").unwrap();
    let current: String = one(&mut fresh, CURRENT);
    let expected = catalog(&mut fresh);
    assert!(expected.len() > 50, "{expected:#?}");

    let versions = released();
    assert!(!versions.is_empty() && !versions.contains(&current));
    for version in versions {
        let mut client = database(&version);
        // Fails if the library lacks a function that the old script names.
        client
            .batch_execute(&format!(
                "CREATE EXTENSION instagram_id VERSION '{version}';
                 SELECT create_shard(5);
                 CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text);
                 CREATE VIEW state AS SELECT shard, last_id, at_home FROM shards;
                 CREATE INDEX ON insta5.photos (id_time(id))"
            ))
            .unwrap();
        assert_ne!(catalog(&mut client), expected, "{version} has nothing to upgrade");
        // An hour ahead, where nothing but the sequence keeps ids apart.
        client.query("SELECT advance_shard(5, id_floor(now() + interval '1 hour') | 5 << 10)", &[]).unwrap();
        let mut other = server.connect_to(&version);
        let insert = "INSERT INTO insta5.photos (title) SELECT '' FROM generate_series(1, 1000) RETURNING id";
        let mut made = ids(&mut client, insert);
        made.extend(ids(&mut other, insert));

        client.batch_execute("ALTER EXTENSION instagram_id UPDATE").unwrap();
        assert_eq!(catalog(&mut client), expected, "from {version} to {current}");
        // A session from before the upgrade, and one that comes after it.
        made.extend(ids(&mut other, insert));
        made.extend(ids(&mut server.connect_to(&version), insert));
        assert!(made.is_sorted_by(|one, next| one < next), "{version}");
        let last: i64 = one(&mut client, "SELECT last_id FROM state WHERE shard = 5 AND at_home");
        assert_eq!(last, *made.last().unwrap());
        println!("{version} to {current}: {} ids", made.len());
    }
}
