//! The PL/pgSQL function that Instagram published.

/// The epoch in the published function.
pub const ORIGINAL_EPOCH_MS: i64 = 1_314_220_021_721;

/// Creates or replaces it in a schema that has the sequence `table_id_seq`.
pub fn original_function(schema: &str, shard: i32, epoch_ms: i64) -> String {
    format!(
        "CREATE OR REPLACE FUNCTION {schema}.next_id(OUT result bigint) AS $$
         DECLARE
             our_epoch bigint := {epoch_ms};
             seq_id bigint;
             now_millis bigint;
             shard_id int := {shard};
         BEGIN
             SELECT nextval('{schema}.table_id_seq') % 1024 INTO seq_id;
             SELECT FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) INTO now_millis;
             result := (now_millis - our_epoch) << 23;
             result := result | (shard_id << 10);
             result := result | (seq_id);
         END;
         $$ LANGUAGE plpgsql;"
    )
}

/// A shard with the published function and the original epoch.
pub fn original_of_shard(shard: i32) -> String {
    let schema = format!("insta{shard}");
    format!(
        "CREATE SCHEMA {schema}; CREATE SEQUENCE {schema}.table_id_seq; {}",
        original_function(&schema, shard, ORIGINAL_EPOCH_MS)
    )
}
