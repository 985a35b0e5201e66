//! Tests inside a server that need both SQL and Rust. Tests that need only SQL are in
//! tests/regress, and those that need several sessions or a crash are in tests/live.

#[pgrx::pg_schema]
mod tests {
    use crate::pg::invalidation;
    use crate::sequence::cache;
    use pgrx::prelude::*;
    use pgrx::spi::Spi;

    fn one<T: FromDatum + IntoDatum>(query: &str) -> T {
        Spi::get_one(query).unwrap().unwrap()
    }

    #[pg_test]
    fn only_changes_that_matter_are_counted() {
        Spi::run("SELECT create_shard(5); CREATE ROLE instagram_id_test; SELECT next_id(5)")
            .unwrap();
        let before = invalidation::settled_count();
        for other in [
            "SELECT count(*) FROM generate_series(1, 1000)",
            "CREATE TABLE other (id serial PRIMARY KEY); ALTER SEQUENCE other_id_seq CYCLE; DROP TABLE other",
            "CREATE SCHEMA other CREATE VIEW other AS SELECT 1; DROP SCHEMA other CASCADE",
            "CREATE FUNCTION other() RETURNS int RETURN 1; ALTER FUNCTION other() COST 7; DROP FUNCTION other()",
            "ALTER FUNCTION insta5.next_id() COST 7",
        ] {
            Spi::run(other).unwrap();
            assert_eq!(invalidation::settled_count(), before, "{other}");
        }
        // More functions than are noted until they can be looked up.
        let many = "DO $$ BEGIN FOR n IN 1..100 LOOP EXECUTE format('CREATE FUNCTION other_%s() RETURNS int RETURN 1', n); END LOOP; END $$";
        Spi::run(many).unwrap();
        assert_ne!(invalidation::settled_count(), before, "{many}");
        for change in [
            "ALTER SEQUENCE insta5.table_id_seq CACHE 2",
            "ALTER SEQUENCE insta5.table_id_seq RESTART",
            "ALTER SEQUENCE insta5.table_id_seq RENAME TO other; ALTER SEQUENCE insta5.other RENAME TO table_id_seq",
            "GRANT USAGE ON SEQUENCE insta5.table_id_seq TO instagram_id_test",
            "REVOKE USAGE ON SEQUENCE insta5.table_id_seq FROM instagram_id_test",
            "GRANT USAGE ON SCHEMA insta5 TO instagram_id_test",
            "ALTER SCHEMA insta5 RENAME TO other; ALTER SCHEMA other RENAME TO insta5",
            "ALTER ROLE instagram_id_test SUPERUSER",
            "CREATE FUNCTION shard_7() RETURNS int RETURN 1",
            "ALTER FUNCTION shard_7() RENAME TO elsewhere; ALTER FUNCTION elsewhere() RENAME TO shard_7",
            "CREATE FUNCTION in_c(bigint) RETURNS int LANGUAGE c AS '$libdir/instagram_id', 'id_shard_wrapper'",
            "ALTER FUNCTION insta5.shard_5() COST 7",
            "GRANT pg_monitor TO instagram_id_test",
            "REVOKE pg_monitor FROM instagram_id_test",
            "DROP SEQUENCE insta5.table_id_seq CASCADE",
        ] {
            let before = invalidation::settled_count();
            Spi::run(change).unwrap();
            assert_ne!(invalidation::settled_count(), before, "{change}");
        }
    }

    /// After more sequences than are cached, changes of those in use still count.
    #[pg_test]
    fn cache_of_sequences_has_a_limit() {
        Spi::run("SELECT create_shard(5); SELECT next_id(5)").unwrap();
        for oid in 1..200_000 {
            cache::with(pg_sys::Oid::from(2_000_000_000 + oid), |_| ());
            assert!(cache::len() <= 1 << 16);
        }
        let (first, second): (i64, i64) =
            (one("SELECT next_id(5)"), one("SELECT insta5.next_id()"));
        assert!(first < second);
        let before = invalidation::settled_count();
        Spi::run("ALTER SEQUENCE insta5.table_id_seq CACHE 2").unwrap();
        assert_ne!(invalidation::settled_count(), before);
    }
}
