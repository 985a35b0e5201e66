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
