-- A session of pgbench that generates ids beside sqlsmith and records them.
\set shard random(1, 7)
SELECT smith.issue(:client_id, :shard);
