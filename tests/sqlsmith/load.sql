-- The statements of a pgbench session that generates and records ids while sqlsmith runs.
\set shard random(1, 7)
SELECT smith.issue(:client_id, :shard);
