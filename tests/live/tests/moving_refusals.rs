//! Tests of what `instagram_id_shards check` refuses in a schema or on a server, and that the
//! statements it names are the way out.

use crate::moving::{Servers, cases, fill, move_blocked_after_copy, outcome};
use instagram_id_live::*;

/// Objects of each kind that a move cannot carry over, and next to them similar ones that it can.
const SCHEMA: &str = "SET client_min_messages = error;
    CREATE TABLE insta5.deferred (id bigint PRIMARY KEY DEFERRABLE);
    CREATE TABLE insta5.gone (id bigint NOT NULL); CREATE UNIQUE INDEX gone_id ON insta5.gone (id);
    ALTER TABLE insta5.gone REPLICA IDENTITY USING INDEX gone_id; DROP INDEX insta5.gone_id;
    CREATE TABLE insta5.invalid (id bigint PRIMARY KEY, other bigint NOT NULL);
    CREATE UNIQUE INDEX invalid_other ON insta5.invalid (other); ALTER TABLE insta5.invalid REPLICA IDENTITY USING INDEX invalid_other;
    UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'insta5.invalid_other'::regclass;
    CREATE TABLE insta5.none (id bigint PRIMARY KEY); ALTER TABLE insta5.none REPLICA IDENTITY NOTHING;
    CREATE TABLE insta5.other (other bigint NOT NULL, j json); CREATE UNIQUE INDEX other_other ON insta5.other (other);
    ALTER TABLE insta5.other REPLICA IDENTITY USING INDEX other_other;

    CREATE TYPE insta5.place AS (name text, at point); CREATE TYPE insta5.pair AS (x int, y text);
    CREATE TYPE insta5.mood AS ENUM ('good'); CREATE DOMAIN insta5.words AS text; CREATE DOMAIN insta5.spot AS box;
    CREATE COLLATION insta5.lax FROM \"C\"; UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'lax';
    CREATE TABLE insta5.full_key (id bigint PRIMARY KEY, n numeric, j json); ALTER TABLE insta5.full_key REPLICA IDENTITY FULL;
    INSERT INTO insta5.full_key VALUES (1, 1.00, '{}'), (2, 1.0, '{}');
    CREATE TABLE insta5.full_parts (id bigint, array_of json[], place insta5.place, spot insta5.spot[], n numrange, lax text[] COLLATE insta5.lax, blank bpchar[]);
    ALTER TABLE insta5.full_parts REPLICA IDENTITY FULL;
    CREATE TABLE insta5.full_fine (t text, v varchar(9), c char(3), a int[], r int4range, m insta5.mood, p insta5.pair,
        w insta5.words[], u uuid, i inet, b bytea, o oid);
    ALTER TABLE insta5.full_fine REPLICA IDENTITY FULL;
    INSERT INTO insta5.full_fine (t, p, w) VALUES ('a', (1, 'b'), '{c}');
    CREATE TABLE insta5.by_setting (id bigint PRIMARY KEY DEFAULT next_id());
    CREATE TABLE insta5.moods (m insta5.mood PRIMARY KEY) PARTITION BY HASH (m);
    CREATE TABLE insta5.many_moods (m insta5.mood[] PRIMARY KEY, n int[]) PARTITION BY HASH (m);
    CREATE TABLE insta5.no_moods (n int[] PRIMARY KEY, m insta5.mood) PARTITION BY HASH (n);
    CREATE TABLE insta5.classes (r regclass PRIMARY KEY) PARTITION BY HASH (r); CREATE TABLE insta5.oids (o oid PRIMARY KEY) PARTITION BY HASH (o);
    INSERT INTO pg_extension SELECT 99999, 'pretended', 10, 'insta5'::regnamespace, true, '1', NULL, NULL;
    INSERT INTO pg_depend VALUES ('pg_extension'::regclass, 99999, 0, 'pg_namespace'::regclass, 'insta5'::regnamespace, 0, 'n');
    CREATE TEXT SEARCH CONFIGURATION insta5.members (COPY = simple); ALTER EXTENSION plpgsql ADD TEXT SEARCH CONFIGURATION insta5.members;
    CREATE FUNCTION insta5.member(int, text[]) RETURNS int RETURN 1; ALTER EXTENSION plpgsql ADD FUNCTION insta5.member(int, text[]);
    CREATE FUNCTION insta5.sum(int, int) RETURNS int RETURN $1 + $2; CREATE OPERATOR insta5.# (LEFTARG = int, RIGHTARG = int, FUNCTION = insta5.sum);
    ALTER EXTENSION plpgsql ADD OPERATOR insta5.# (int, int); CREATE TYPE insta5.members_type AS (x int); ALTER EXTENSION plpgsql ADD TYPE insta5.members_type;
    CREATE OPERATOR CLASS insta5.ints FOR TYPE int USING btree AS OPERATOR 1 <, FUNCTION 1 btint4cmp(int, int);
    ALTER EXTENSION plpgsql ADD OPERATOR CLASS insta5.ints USING btree;
    CREATE TABLE insta5.members (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY); ALTER EXTENSION plpgsql ADD TABLE insta5.members;
    ALTER EXTENSION plpgsql ADD SEQUENCE insta5.members_id_seq;
    CREATE TYPE insta5.members_span AS RANGE (subtype = int); ALTER EXTENSION plpgsql ADD FUNCTION insta5.members_span(int, int);

    CREATE TABLE insta5.generated (id bigint, k bigint GENERATED ALWAYS AS (id + 1) STORED PRIMARY KEY);
    CREATE TABLE insta5.generated_full (id bigint, k bigint GENERATED ALWAYS AS (id % 7) STORED, PRIMARY KEY (id, k));
    ALTER TABLE insta5.generated_full REPLICA IDENTITY FULL;
    CREATE TABLE insta5.generated_fine (id bigint, k bigint GENERATED ALWAYS AS (id % 7) STORED, PRIMARY KEY (id) INCLUDE (k));
    CREATE TABLE insta5.generated_other (id bigint NOT NULL, k bigint GENERATED ALWAYS AS (1) STORED);
    ALTER TABLE insta5.generated_other REPLICA IDENTITY FULL;
    INSERT INTO insta5.generated VALUES (1), (2); INSERT INTO insta5.generated_full VALUES (1), (2);
    INSERT INTO insta5.generated_fine VALUES (1), (2); INSERT INTO insta5.generated_other VALUES (1), (2);

    CREATE DOMAIN insta5.small AS int; CREATE TABLE insta5.sizes (id bigint PRIMARY KEY, small insta5.small); INSERT INTO insta5.sizes VALUES (1, 7);
    ALTER DOMAIN insta5.small ADD CONSTRAINT is_small CHECK (VALUE < 5) NOT VALID;
    ALTER TABLE insta5.counter ADD CONSTRAINT positive CHECK (value > 0) NOT VALID;
    CREATE TABLE insta5.likes (id bigint PRIMARY KEY, photo bigint); INSERT INTO insta5.likes VALUES (1, -1);
    ALTER TABLE insta5.likes ADD CONSTRAINT photo FOREIGN KEY (photo) REFERENCES insta5.photos NOT VALID;

    CREATE FUNCTION insta5.again() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
    CREATE TRIGGER shard_is_elsewhere BEFORE UPDATE ON insta5.other FOR EACH ROW EXECUTE FUNCTION insta5.again();
    CREATE SEQUENCE elsewhere; CREATE FUNCTION insta5.elsewhere() RETURNS bigint RETURN nextval('elsewhere');
    CREATE SEQUENCE more; CREATE VIEW insta5.more AS SELECT nextval('more');
    CREATE UNLOGGED SEQUENCE insta5.fleeting; CREATE TABLE outside_trigger (id bigint);
    CREATE TRIGGER ids BEFORE INSERT ON outside_trigger FOR EACH ROW EXECUTE FUNCTION next_id_trigger('5', 'id');
    CREATE TRIGGER six BEFORE INSERT ON insta5.full_fine FOR EACH ROW EXECUTE FUNCTION next_id_trigger('6', 'o');
    CREATE TRIGGER fine BEFORE INSERT ON insta5.likes FOR EACH ROW EXECUTE FUNCTION next_id_trigger('5', 'id');
    CREATE TRIGGER fifty BEFORE INSERT ON outside_trigger FOR EACH ROW EXECUTE FUNCTION next_id_trigger('50', 'id');
    CREATE TRIGGER always AFTER INSERT ON insta5.counter EXECUTE FUNCTION insta5.again(); ALTER TABLE insta5.counter ENABLE ALWAYS TRIGGER always;
    CREATE TRIGGER replica AFTER INSERT ON insta5.counter EXECUTE FUNCTION insta5.again(); ALTER TABLE insta5.counter ENABLE REPLICA TRIGGER replica;
    CREATE RULE too AS ON DELETE TO insta5.counter DO ALSO NOTIFY deleted; ALTER TABLE insta5.counter ENABLE ALWAYS RULE too;

    CREATE TABLE outside (id bigint DEFAULT insta5.next_id()); CREATE TABLE outside_too (id bigint DEFAULT next_id(5));
    CREATE TABLE outside_fine (id bigint DEFAULT next_id(50)); CREATE SEQUENCE numbers;
    CREATE TABLE insta5.inside (id bigint PRIMARY KEY DEFAULT next_id(5), n bigint DEFAULT nextval('numbers'));
    CREATE ROLE idler; DO $$ BEGIN
        EXECUTE format('CREATE TABLE outside_deep (id bigint DEFAULT next_id(6) + %s 1 %s)', repeat('abs(', 4000), repeat(')', 4000));
    END $$; ALTER TABLE outside_deep OWNER TO idler; ALTER TABLE outside_fine OWNER TO idler; CREATE SCHEMA idle;
    CREATE FUNCTION idle.next_id(int) RETURNS bigint RETURN $1; CREATE TABLE outside_idle (id bigint DEFAULT idle.next_id(5));
    CREATE TYPE idle.t AS (a int); CREATE FUNCTION idle.f(idle.t) RETURNS bigint RETURN 1;
    CREATE TABLE outside_crash (id bigint DEFAULT next_id(6) + idle.f('(4609)'::idle.t));
    DO $$ BEGIN ALTER TYPE idle.t ALTER ATTRIBUTE a TYPE text; EXCEPTION WHEN feature_not_supported THEN END $$; -- which newer minor releases refuse
    CREATE TABLE outside_named (id bigint DEFAULT next_id(shard => 5)); CREATE TABLE insta5.inside_six (id bigint PRIMARY KEY DEFAULT next_id(6));
    CREATE DOMAIN numbered AS bigint DEFAULT nextval('numbers'); ALTER TABLE insta5.inside ADD d numbered, ADD fine numbered DEFAULT 1;
    CREATE DOMAIN insta5.own AS bigint DEFAULT insta5.next_id(); CREATE TABLE outside_own (id insta5.own); CREATE TABLE insta5.inside_own (id insta5.own PRIMARY KEY);
    CREATE DOMAIN five AS bigint DEFAULT next_id(5); CREATE TABLE outside_five (id five);

    CREATE TYPE insta5.span AS RANGE (subtype = int); CREATE FUNCTION insta5.length(insta5.span) RETURNS int RETURN upper($1) - lower($1);
    CREATE CAST (insta5.span AS int) WITH FUNCTION insta5.length(insta5.span);
    CREATE FUNCTION insta5.from_sql(internal) RETURNS internal IMMUTABLE LANGUAGE internal AS 'boolin';
    CREATE TRANSFORM FOR insta5.span LANGUAGE plpgsql (FROM SQL WITH FUNCTION insta5.from_sql(internal));

    CREATE FUNCTION insta5.safe() RETURNS bigint LANGUAGE sql SET search_path = insta5 AS 'SELECT count(*) FROM photos';
    CREATE FUNCTION insta5.parsed() RETURNS bigint LANGUAGE sql RETURN (SELECT count(*) FROM insta5.photos);
    CREATE MATERIALIZED VIEW insta5.counted_fine AS SELECT insta5.safe() + insta5.parsed() AS n;
    CREATE MATERIALIZED VIEW insta5.empty AS SELECT 1 AS n WITH NO DATA; CREATE STATISTICS insta5.failing ON (1 / (photo - photo)) FROM insta5.likes;

    CREATE ROLE lender; CREATE ROLE lender_fine; CREATE ROLE reader; GRANT USAGE ON SCHEMA insta5 TO lender, lender_fine;
    GRANT SELECT ON insta5.photos TO lender, lender_fine WITH GRANT OPTION; GRANT UPDATE (batch) ON insta5.photos TO lender WITH GRANT OPTION;
    SET ROLE lender; GRANT SELECT, UPDATE (batch) ON insta5.photos TO reader; SET ROLE lender_fine; GRANT SELECT ON insta5.photos TO reader;
    RESET ROLE; REVOKE USAGE ON SCHEMA insta5 FROM lender; GRANT USAGE ON SCHEMA insta5 TO reader;
    CREATE TABLE insta5.lent (id bigint PRIMARY KEY, dropped int); GRANT SELECT, REFERENCES (dropped) ON insta5.lent TO lender WITH GRANT OPTION;
    ALTER TABLE insta5.lent DROP dropped;
    GRANT UPDATE ON insta5.lent TO lender_fine WITH GRANT OPTION; SET ROLE lender_fine; GRANT UPDATE (id) ON insta5.lent TO reader; RESET ROLE; GRANT DELETE ON insta5.lent TO lender_fine WITH GRANT OPTION;
    SET ROLE lender_fine; GRANT DELETE ON insta5.lent TO reader WITH GRANT OPTION; SET ROLE reader; GRANT DELETE ON insta5.lent TO PUBLIC; RESET ROLE;
    GRANT DELETE ON insta5.lent TO reader WITH GRANT OPTION; SET ROLE lender_fine; REVOKE DELETE ON insta5.lent FROM reader; RESET ROLE;
    GRANT USAGE ON SCHEMA insta5 TO idler; CREATE TABLE insta5.lent_too (id bigint PRIMARY KEY); GRANT INSERT ON insta5.lent_too TO lender_fine, idler WITH GRANT OPTION;
    SET ROLE lender_fine; GRANT INSERT ON insta5.lent_too TO reader; -- without the option
    SET ROLE idler; GRANT INSERT ON insta5.lent_too TO reader WITH GRANT OPTION; SET ROLE reader; GRANT INSERT ON insta5.lent_too TO PUBLIC; RESET ROLE;
    GRANT INSERT ON insta5.lent_too TO reader WITH GRANT OPTION; SET ROLE idler; REVOKE INSERT ON insta5.lent_too FROM reader; RESET ROLE;

    CREATE TYPE insta5.named AS RANGE (subtype = int); ALTER TYPE insta5.named RENAME TO renamed;
    CREATE TYPE apart AS RANGE (subtype = int); ALTER TYPE apart SET SCHEMA insta5;
    REVOKE USAGE ON TYPE insta5.likes FROM PUBLIC; REVOKE USAGE ON TYPE insta5.sizes FROM PUBLIC; GRANT USAGE ON TYPE insta5.sizes TO PUBLIC;
    CREATE TABLE insta5.ranges (id bigint PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE insta5.leaving PARTITION OF insta5.ranges DEFAULT;
    CREATE TABLE insta5.account (id int PRIMARY KEY); CREATE TABLE insta5.vip (debit int, PRIMARY KEY (id)) INHERITS (insta5.account);
    ALTER TABLE insta5.account ADD credit int; CREATE TABLE insta5.fine (debit int, PRIMARY KEY (id)) INHERITS (insta5.account);
    CREATE TABLE insta5.turned (credit int, id int PRIMARY KEY); ALTER TABLE insta5.turned INHERIT insta5.account;
    CREATE TABLE insta5.rate (rate int PRIMARY KEY); CREATE TABLE insta5.both (x int, PRIMARY KEY (id)) INHERITS (insta5.account, insta5.rate);
    UPDATE pg_inherits SET inhdetachpending = true WHERE inhrelid = 'insta5.leaving'::regclass";

/// How the message of each obstacle begins, the statement with which it ends, and what that
/// statement needs first.
const CASES: &str = r#"
    table insta5.deferred has no primary key or replica identity that is valid, not deferrable and without generated columns | ALTER TABLE insta5.deferred REPLICA IDENTITY FULL | SELECT
    table insta5.gone has no primary key or replica identity that is valid | ALTER TABLE insta5.gone REPLICA IDENTITY FULL | SELECT
    table insta5.invalid has no primary key or replica identity that is valid | ALTER TABLE insta5.invalid REPLICA IDENTITY DEFAULT | SELECT
    table insta5."none" has no primary key or replica identity | ALTER TABLE insta5."none" REPLICA IDENTITY DEFAULT | SELECT
    table insta5.full_parts has REPLICA IDENTITY FULL, but no exact equality for column array_of, so its updates and deletes could change other rows or none | add a primary key, and set REPLICA IDENTITY DEFAULT | SELECT
    table insta5.full_parts has REPLICA IDENTITY FULL, but no exact equality for column blank, so its updates and deletes could change other rows or none | add a primary key, and set REPLICA IDENTITY DEFAULT | SELECT
    table insta5.full_parts has REPLICA IDENTITY FULL, but no exact equality for column place, so its updates and deletes could change other rows or none | add a primary key, and set REPLICA IDENTITY DEFAULT | SELECT
    table insta5.full_parts has REPLICA IDENTITY FULL, but no exact equality for column spot, so its updates and deletes could change other rows or none | add a primary key, and set REPLICA IDENTITY DEFAULT | SELECT
    table insta5.full_parts has REPLICA IDENTITY FULL, but no exact equality for column n, so its updates and deletes could change other rows or none | add a primary key, and set REPLICA IDENTITY DEFAULT | ALTER TABLE insta5.full_parts ADD PRIMARY KEY (id)
    table insta5.full_parts has REPLICA IDENTITY FULL, but no exact equality for column lax, so its updates and deletes could change other rows or none | add a primary key, and set REPLICA IDENTITY DEFAULT | ALTER TABLE insta5.full_parts DROP lax; DROP COLLATION insta5.lax
    extension pretended is in schema insta5, so a move would leave it behind | ALTER EXTENSION pretended SET SCHEMA public | SELECT
    sequence insta5.members_id_seq belongs to extension plpgsql, so a move would leave it behind | ALTER EXTENSION plpgsql DROP SEQUENCE insta5.members_id_seq | SELECT
    function insta5.members_span(integer,integer) belongs to extension plpgsql, so a move would leave it behind | ALTER EXTENSION plpgsql DROP FUNCTION insta5.members_span(integer,integer) | SELECT
    text search configuration insta5.members belongs to extension plpgsql, so a move would leave it behind | ALTER EXTENSION plpgsql DROP TEXT SEARCH CONFIGURATION insta5.members | SELECT
    function insta5.member(integer,text[]) belongs to extension plpgsql, so a move would leave it behind | ALTER EXTENSION plpgsql DROP FUNCTION insta5.member(integer,pg_catalog.text[]) | SELECT
    operator insta5.#(integer,integer) belongs to extension plpgsql, so a move would leave it behind | ALTER EXTENSION plpgsql DROP OPERATOR insta5.#(integer,integer) | SELECT
    operator class insta5.ints for access method btree belongs to extension plpgsql, so a move would leave it behind | ALTER EXTENSION plpgsql DROP OPERATOR CLASS insta5.ints USING btree | SELECT
    table insta5.members belongs to extension plpgsql, so a move would leave it behind | ALTER EXTENSION plpgsql DROP TABLE insta5.members | SELECT
    type insta5.members_type belongs to extension plpgsql, so a move would leave it behind | ALTER EXTENSION plpgsql DROP TYPE insta5.members_type | SELECT
    the partitions of insta5.moods depend on a hash of enum values or of OIDs such as regclass, which is another one on each server | partition it in another way | DROP TABLE insta5.moods
    the partitions of insta5.many_moods depend on a hash of enum values or of OIDs such as regclass, which is another one on each server | partition it in another way | DROP TABLE insta5.many_moods
    table insta5.generated has no primary key or replica identity that is valid, not deferrable and without | add a unique index without generated columns, and set REPLICA IDENTITY USING INDEX | CREATE UNIQUE INDEX generated_id ON insta5.generated (id); ALTER TABLE insta5.generated ALTER id SET NOT NULL, REPLICA IDENTITY USING INDEX generated_id
    table insta5.generated_full has REPLICA IDENTITY FULL and generated columns | add a unique index without generated columns, and set REPLICA IDENTITY USING INDEX | CREATE UNIQUE INDEX generated_full_id ON insta5.generated_full (id); ALTER TABLE insta5.generated_full REPLICA IDENTITY USING INDEX generated_full_id
    constraint positive of insta5.counter is NOT VALID, so the copy could reject rows: in a session of role postgres, | ALTER TABLE insta5.counter VALIDATE CONSTRAINT positive | UPDATE insta5.counter SET value = 1
    constraint is_small of insta5.small is NOT VALID, so the copy could reject rows: in a session of role postgres, | ALTER DOMAIN insta5.small VALIDATE CONSTRAINT is_small | DELETE FROM insta5.sizes
    column id of public.outside uses function insta5.next_id(), which is not in the same schema, so inserts would fail | ALTER TABLE public.outside ALTER COLUMN id DROP DEFAULT | SELECT
    column id of public.outside_too of role postgres uses next_id(5), whose shard is not in the same schema | ALTER TABLE public.outside_too ALTER COLUMN id DROP DEFAULT | SELECT
    column id of public.outside_deep of role idler has a default that is too long to look for next_id(5) in it | ALTER TABLE public.outside_deep ALTER COLUMN id DROP DEFAULT | SELECT
    column id of public.outside_named of role postgres uses next_id(5), whose shard is not in the same schema | ALTER TABLE public.outside_named ALTER COLUMN id DROP DEFAULT | SELECT
    column id of public.outside_five of role postgres uses next_id(5), whose shard is not in the same schema | ALTER TABLE public.outside_five ALTER COLUMN id SET DEFAULT NULL | SELECT
    column id of public.outside_own uses function insta5.next_id(), which is not in the same schema | ALTER TABLE public.outside_own ALTER COLUMN id SET DEFAULT NULL | SELECT
    column id of insta5.inside_six of role postgres uses next_id of another shard than 5 | ALTER TABLE insta5.inside_six ALTER COLUMN id DROP DEFAULT | SELECT
    column id of insta5.by_setting of role postgres uses next_id(), whose shard is a setting of the server | ALTER TABLE insta5.by_setting ALTER COLUMN id DROP DEFAULT | SELECT
    column d of insta5.inside uses sequence public.numbers | ALTER TABLE insta5.inside ALTER COLUMN d SET DEFAULT NULL | SELECT
    column n of insta5.inside uses sequence public.numbers | ALTER TABLE insta5.inside ALTER COLUMN n DROP DEFAULT | SELECT
    cast from insta5.span to integer would be lost, since pg_dump leaves out casts | DROP CAST (insta5.span AS integer) | SELECT
    transform for insta5.span language plpgsql would be lost, since pg_dump leaves out transforms | DROP TRANSFORM FOR insta5.span LANGUAGE plpgsql | SELECT
    trigger shard_is_elsewhere of insta5.other has the name of the trigger that closes a shard | ALTER TRIGGER shard_is_elsewhere ON insta5.other RENAME TO another | SELECT
    trigger always of insta5.counter fires for the replication, too | ALTER TABLE insta5.counter ENABLE TRIGGER always | SELECT
    trigger replica of insta5.counter fires for the replication, too | ALTER TABLE insta5.counter ENABLE TRIGGER replica | SELECT
    rule too of insta5.counter is enabled for the replication, too | ALTER TABLE insta5.counter ENABLE RULE too | SELECT
    role lender has granted SELECT on TABLE insta5.photos to reader, and lacks USAGE on schema insta5 | GRANT USAGE ON SCHEMA insta5 TO lender | SELECT
    role lender has granted UPDATE (batch) on TABLE insta5.photos to reader, and lacks USAGE | GRANT USAGE ON SCHEMA insta5 TO lender | SELECT
    role reader has granted DELETE on TABLE insta5.lent to public before it got its present grant option | revoke all that it has granted to that role there, and grant it again | SET ROLE reader; REVOKE DELETE ON insta5.lent FROM PUBLIC; GRANT DELETE ON insta5.lent TO PUBLIC; RESET ROLE
    role reader has granted INSERT on TABLE insta5.lent_too to public before it got its present grant option | revoke all that it has granted to that role there, and grant it again | SET ROLE reader; REVOKE INSERT ON insta5.lent_too FROM PUBLIC; GRANT INSERT ON insta5.lent_too TO PUBLIC; RESET ROLE
    the partitions of insta5.classes depend on a hash of enum values or of OIDs | partition it in another way | DROP TABLE insta5.classes
    the privileges on the row type of insta5.likes would be lost | GRANT USAGE ON TYPE insta5.likes TO PUBLIC | SELECT
    function insta5.named(integer,integer) of range type insta5.renamed would have the name of that type: as a superuser, | ALTER FUNCTION insta5.named(integer,integer) RENAME TO renamed | SELECT
    function insta5.named(integer,integer,text) of range type insta5.renamed would have the name of that type: as a superuser, | ALTER FUNCTION insta5.named(integer,integer,text) RENAME TO renamed | SELECT
    types insta5.apart and public.apart_multirange are not both in schema insta5 | ALTER TYPE public.apart_multirange SET SCHEMA insta5 | SELECT
    the columns of insta5.turned would get another order | ALTER TABLE insta5.turned NO INHERIT insta5.account | SELECT
    function insta5.elsewhere() uses sequence public.elsewhere, which is not in the same schema, so it would be another one on each server: use one in the same schema, or | ALTER SEQUENCE public.elsewhere SET SCHEMA insta5 | SELECT
    rule _RETURN on view insta5.more uses sequence public.more, which is not in the same schema, so it would be another one on each server: use one in the same schema, or | ALTER SEQUENCE public.more SET SCHEMA insta5 | DROP VIEW insta5.more
    sequence insta5.fleeting is unlogged, so a crash could repeat its values | ALTER SEQUENCE insta5.fleeting SET LOGGED | SELECT
    trigger ids of public.outside_trigger of role postgres uses next_id_trigger() of shard 5 in another schema | drop it | DROP TRIGGER ids ON outside_trigger
    trigger six of insta5.full_fine of role postgres uses next_id_trigger() of another shard | drop it, or create it for shard 5 | DROP TRIGGER six ON insta5.full_fine
    the columns of insta5.vip would get another order | ALTER TABLE insta5.vip NO INHERIT insta5.account | SELECT
    partition insta5.leaving is about to be detached | ALTER TABLE insta5.ranges DETACH PARTITION insta5.leaving FINALIZE | SELECT
    table insta5.counter receives rows by subscription feed | DROP SUBSCRIPTION feed | SELECT
    server a has 1 of 10 max_replication_slots left, but a move needs 2 | increase max_replication_slots | SELECT
    server b copies no tables, since max_sync_workers_per_subscription is 0 | ALTER SYSTEM RESET max_sync_workers_per_subscription | SELECT
    server b does not confirm changes, since wal_receiver_status_interval is 0 | ALTER SYSTEM RESET wal_receiver_status_interval | SELECT"#;

/// PostgreSQL 17 and later refresh views without the search_path of the session themselves.
const BEFORE_17: [&str; 2] = [
    "SET search_path = insta5, public;
     CREATE FUNCTION insta5.counts() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM photos';
     CREATE FUNCTION insta5.counts(int) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM photos); END';
     CREATE MATERIALIZED VIEW insta5.counted AS SELECT insta5.counts() AS n;
     CREATE VIEW insta5.between AS SELECT insta5.counts(1) AS n; CREATE MATERIALIZED VIEW insta5.counted_too AS SELECT * FROM insta5.between;
     RESET search_path",
    "
    materialized view insta5.counted calls insta5.counts(), whose body | ALTER FUNCTION insta5.counts() SET search_path = insta5, public | SELECT
    materialized view insta5.counted_too calls insta5.counts(integer), whose body | ALTER FUNCTION insta5.counts(integer) SET search_path = insta5, public | SELECT",
];

/// PostgreSQL 18 has further kinds of constraints that may not hold, and a setting of its own for
/// origins. It rejects updates if a generated column is a part of the replica identity.
const SINCE_18: [&str; 2] = [
    "ALTER TABLE insta5.sizes ADD n int, ADD CONSTRAINT no_gaps NOT NULL n NOT VALID;
     ALTER TABLE insta5.photos ADD CONSTRAINT not_enforced CHECK (batch < 0) NOT ENFORCED",
    "
    constraint no_gaps of insta5.sizes is NOT VALID, so the copy could reject rows: in a session of role postgres, | ALTER TABLE insta5.sizes VALIDATE CONSTRAINT no_gaps | SELECT
    table insta5.generated_other has REPLICA IDENTITY FULL and generated columns | add a primary key, and set REPLICA IDENTITY DEFAULT | ALTER TABLE insta5.generated_other ADD PRIMARY KEY (id), REPLICA IDENTITY DEFAULT
    server b has 1 of 10 max_active_replication_origins left | increase max_active_replication_origins | SELECT",
];
const UNTIL_17: &str = "
    server b has 1 of 10 max_replication_slots left | increase max_replication_slots | SELECT";

/// Each obstacle is reported with the statement that removes it, and nothing else is refused. After
/// these statements the shard moves.
#[test]
fn obstacles_are_refused_with_a_way_out() {
    let servers = Servers::start();
    fill(&servers, 100);
    let cases = prepare(&servers);
    // The owner of a table outside the schema locks it.
    let mut idler = servers.a.connect();
    run(&mut idler, "SET ROLE idler; BEGIN; LOCK TABLE outside_deep, outside_fine");
    let said = servers.refusal(&["check", "5", "--to", "b"]);
    drop(idler);
    let lines: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("    - ")).collect();
    let is_case = |line: &str, [said, way_out, _]: &[&str; 3]| {
        line.starts_with(said) && line.ends_with(way_out)
    };
    let missing: Vec<_> =
        cases.iter().filter(|case| !lines.iter().any(|line| is_case(line, case))).collect();
    let more: Vec<_> =
        lines.iter().filter(|line| !cases.iter().any(|case| is_case(line, case))).collect();
    assert!(
        missing.is_empty() && more.is_empty(),
        "missing: {missing:#?}\nmore: {more:#?}\n{said}"
    );

    remove(&servers, &cases);
    servers.command(&["check", "5", "--to", "b"]);
    refuse_what_depends_on_the_target(&servers);
    check_types_that_differ(&servers);
    check_triggers_of_partitions(&servers);
    let (command, mut other) = move_blocked_after_copy(&servers, &[]);
    let written = ["generated", "generated_full", "generated_fine", "generated_other", "full_key"];
    for table in written {
        let write = format!(
            "UPDATE insta5.{table} SET id = 9 WHERE id = 1; DELETE FROM insta5.{table} WHERE id = 2"
        );
        run(&mut servers.a.connect(), &write);
    }
    run(&mut other, "COMMIT");
    let said = outcome(command).unwrap();
    assert!(said.contains("warning: ANALYZE insta5.likes fails on b: division by zero"), "{said}");
    let mut b = servers.b.connect();
    let is_populated = "SELECT relispopulated FROM pg_class WHERE oid = 'insta5.empty'::regclass";
    assert!(!one::<bool>(&mut b, is_populated));
    for table in written {
        let ids = column(&mut b, &format!("SELECT id FROM insta5.{table}"));
        assert_eq!(ids, [9], "{table}");
    }
    let rows = |table: &str| format!("SELECT count(*) FROM insta5.{table}");
    for (table, count) in [("photos", 100), ("counter", 2), ("likes", 1), ("full_fine", 1)] {
        assert_eq!(one::<i64>(&mut b, &rows(table)), count, "{table}");
    }
    assert_eq!(one::<i64>(&mut b, "SELECT n::bigint FROM insta5.counted_fine"), 200);
    let grantors = "SELECT string_agg(DISTINCT grantor::text, ' ' ORDER BY grantor::text) FROM information_schema.role_table_grants
        WHERE table_schema = 'insta5' AND table_name = 'photos' AND grantee = 'reader'";
    assert_eq!(one::<String>(&mut b, grantors), "lender lender_fine");
}

/// Creates the obstacles.
fn prepare(servers: &Servers) -> Vec<[&'static str; 3]> {
    let (mut a, mut b) = (servers.a.connect(), servers.b.connect());
    run(
        &mut b,
        "CREATE ROLE idler; CREATE ROLE lender; CREATE ROLE lender_fine; CREATE ROLE reader; CREATE SEQUENCE numbers; CREATE SEQUENCE elsewhere; CREATE SEQUENCE more;
         CREATE DOMAIN numbered AS bigint DEFAULT nextval('numbers'); CREATE SCHEMA insta5; CREATE TABLE insta5.counter (n int PRIMARY KEY, value bigint);
         CREATE PUBLICATION feed FOR TABLE insta5.counter",
    );
    let subscribe = format!(
        "CREATE SUBSCRIPTION feed CONNECTION '{}' PUBLICATION feed
            WITH (create_slot = false, enabled = false, slot_name = NONE)",
        conninfo(&servers.b, "postgres")
    );
    run(&mut a, &subscribe);
    run(&mut b, "DROP SCHEMA insta5 CASCADE; DROP PUBLICATION feed");
    run(&mut a, SCHEMA);
    let mut found = vec![CASES];
    if major() < 17 {
        run(&mut a, BEFORE_17[0]);
        found.push(BEFORE_17[1]);
    }
    if major() >= 18 {
        run(&mut a, SINCE_18[0]);
        found.push(SINCE_18[1]);
    } else {
        found.push(UNTIL_17);
    }
    let slots = "FROM generate_series(1, current_setting('max_replication_slots')::int - 1)";
    run(&mut a, &format!("SELECT pg_create_physical_replication_slot('s' || n) {slots} AS n"));
    // PostgreSQL 18 has a setting of its own for these.
    let origins = slots.replace(
        "current_setting('max_replication_slots')",
        "coalesce(current_setting('max_active_replication_origins', true), current_setting('max_replication_slots'))",
    );
    run(&mut b, &format!("SELECT pg_replication_origin_create('o' || n) {origins} AS n"));
    run(&mut b, "ALTER SYSTEM SET wal_receiver_status_interval = 0");
    run(&mut b, "ALTER SYSTEM SET max_sync_workers_per_subscription = 0");
    run(&mut b, "SELECT pg_reload_conf()");
    servers.b.wait_until("SELECT current_setting('max_sync_workers_per_subscription') = '0'");
    found.into_iter().flat_map(cases).collect()
}

/// Removes the obstacles as the command has said.
fn remove(servers: &Servers, cases: &[[&str; 3]]) {
    let (mut a, mut b) = (servers.a.connect(), servers.b.connect());
    for [_, way_out, first] in cases {
        if way_out.starts_with("ALTER SYSTEM") {
            run(&mut b, way_out);
        } else if !way_out.starts_with("increase") {
            run(&mut a, first);
            let is_statement = way_out.starts_with(char::is_uppercase);
            run(&mut a, if is_statement { way_out } else { "" });
        }
    }
    run(&mut b, "SELECT pg_reload_conf()");
    run(&mut a, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots");
    run(&mut b, "SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin");
    servers.b.wait_until("SELECT current_setting('max_sync_workers_per_subscription') <> '0'");
}

/// Another encoding, an old pg_dump, and a role without superuser rights on the target.
fn refuse_what_depends_on_the_target(servers: &Servers) {
    let mut b = servers.b.connect();
    run(&mut b, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    servers.command(&["server", "latin", &conninfo(&servers.b, "latin")]);
    servers.refuses(
        &["check", "5", "--to", "latin"],
        "the database on latin has the encoding LATIN1, and that on a UTF8",
    );

    let folder = servers.b.path().join("old");
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join("pg_dump");
    std::fs::write(&program, "#!/bin/sh\necho 'pg_dump (PostgreSQL) 14.5 (Debian 14.5-1)'\n")
        .unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let mut old = servers.b.shards_command(&["check", "5", "--to", "b"]);
    let output = old
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("PGOPTIONS", "-c standard_conforming_strings=off")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let reason = format!(
        "this machine has pg_dump (PostgreSQL) 14.5 (Debian 14.5-1), older than the server: install that of {}",
        major()
    );
    assert!(output.status.code() == Some(3) && said.contains(&reason), "{said}");

    run(&mut b, "CREATE ROLE mover LOGIN");
    servers.connect_as("b", "mover", &[]);
    let said = servers.refusal(&["check", "5", "--to", "b"]);
    let reason =
        "the conninfo of a has no password, without which only a superuser can subscribe on b";
    assert!(said.contains(reason), "{said}");
    for (lender, privilege) in
        [("lender", "SELECT"), ("lender", "UPDATE (batch)"), ("lender_fine", "SELECT")]
    {
        let reason = format!(
            "role {lender} has granted {privilege} on TABLE insta5.photos to another role, which a role that is no superuser cannot repeat: \
             grant it as the owner after REVOKE GRANT OPTION FOR {privilege} ON TABLE insta5.photos FROM {lender} CASCADE"
        );
        assert!(said.contains(&reason), "{reason}: {said}");
    }
    servers.connect_as("b", "postgres", &[]);
    run(&mut servers.a.connect(), "CREATE ROLE only_here LOGIN");
    servers.connect_as("a", "only_here", &[]);
    servers.refuses(&["check", "5", "--to", "b"], "server b has no role only_here");
    servers.connect_as("a", "postgres", &[]);
}

/// The values of types that differ on the new server would change, and no count of rows shows that.
/// An expression can refer to a column of such a type.
fn check_types_that_differ(servers: &Servers) {
    let (mut a, mut b) = (servers.a.connect(), servers.b.connect());
    let create = "CREATE SCHEMA com; CREATE TYPE com.fees AS (amount int, fee int); CREATE DOMAIN com.price AS numeric(10,2);
        CREATE TYPE com.mood AS ENUM ('a'); CREATE TYPE com.unused AS (n int); CREATE TYPE com.span AS RANGE (subtype = com.price);
        CREATE TYPE com.bill AS (fees com.fees[], spans com.span_multirange); CREATE TYPE com.columns AS (a int, b numeric(10,4))";
    run(&mut a, create);
    run(
        &mut a,
        "CREATE TABLE insta5.bills (id int PRIMARY KEY, bill com.bill, mood com.mood);
         CREATE VIEW insta5.fees AS SELECT (bill).fees FROM insta5.bills;
         CREATE TABLE insta5.typed OF com.columns (PRIMARY KEY (a));
         CREATE FUNCTION insta5.uses(com.unused) RETURNS int RETURN 1",
    );
    let other = create
        .replace("amount int, fee int", "fee int, amount int")
        .replace("numeric(10,2)", "numeric(10,0)")
        .replace("numeric(10,4)", "numeric(10,1)")
        .replace("'a'", "'a', 'b'")
        .replace("n int", "n bigint");
    run(&mut b, &other);
    let said = servers.refusal(&["check", "5", "--to", "b"]);
    let used_by = "needed for column bill of table insta5.bills";
    for reason in [
        format!(
            "type com.fees, {used_by}, is (fee integer, amount integer) on b, so values could change: make it the same as here, (amount integer, fee integer)"
        ),
        format!("type com.price, {used_by}, is (numeric(10,0)) on b"),
        "type com.columns, needed for table insta5.typed, is (a integer, b numeric(10,1)) on b"
            .into(),
    ] {
        assert!(said.contains(&reason), "{reason}: {said}");
    }
    assert_eq!(said.matches("values could change").count(), 3, "{said}");
    run(&mut b, &format!("DROP SCHEMA com CASCADE; {create}"));
    servers.command(&["check", "5", "--to", "b"]);
}

/// pg_dump writes a trigger of a foreign key if it differs from that of the partitioned table, by
/// its name.
fn check_triggers_of_partitions(servers: &Servers) {
    let mut a = servers.a.connect();
    run(
        &mut a,
        "CREATE TABLE insta5.parts (id int PRIMARY KEY) PARTITION BY RANGE (id);
         CREATE TABLE insta5.first_part PARTITION OF insta5.parts FOR VALUES FROM (5) TO (6); CREATE TABLE insta5.part PARTITION OF insta5.parts DEFAULT;
         CREATE TABLE insta5.of_parts (id int PRIMARY KEY REFERENCES insta5.parts);
         CREATE TRIGGER six BEFORE INSERT ON insta5.parts FOR EACH ROW EXECUTE FUNCTION next_id_trigger('6', 'id');
         -- The numbers in the names of the other constraints stay as they are.
         ALTER TABLE insta5.parts DETACH PARTITION insta5.first_part; DROP TABLE insta5.first_part;
         ALTER TABLE insta5.part DISABLE TRIGGER ALL",
    );
    let said = servers.refusal(&["check", "5", "--to", "b"]);
    let reason =
        "of a foreign key is enabled in another way on insta5.part than on its partitioned table";
    assert!(said.contains(reason), "{said}");
    // That of a partition goes with that of its table.
    assert_eq!(said.matches("trigger six of").count(), 1, "{said}");
    run(&mut a, "DROP TRIGGER six ON insta5.parts");
    for line in said.lines().filter(|line| line.contains(reason)) {
        run(&mut a, line.split_once("as a superuser, ").expect("a statement").1);
    }
    servers.command(&["check", "5", "--to", "b"]);
}
