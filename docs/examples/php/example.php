<?php

// Inserts photos into shard 5 and reads them back, with PDO alone.

$pdo = new PDO('pgsql:'); // PGHOST, PGPORT, PGUSER and PGDATABASE, which libpq reads
$pdo->exec('CREATE EXTENSION IF NOT EXISTS instagram_id');
$pdo->query('SELECT create_shard(5, if_not_exists => true)');
$pdo->exec('CREATE TABLE IF NOT EXISTS insta5.photos
    (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text NOT NULL)');

// Not lastInsertId(), which knows nothing of this id.
$insert = $pdo->prepare('INSERT INTO insta5.photos (title) VALUES (?) RETURNING id');
$insert->execute(['first']);
$first = $insert->fetchColumn();

// Many rows in one statement, which returns the ids in the order of the titles.
$titles = array_map(fn ($n) => "photo $n", range(0, 999));
$insert = $pdo->prepare(
    'INSERT INTO insta5.photos (title) SELECT * FROM json_array_elements_text(?) RETURNING id'
);
$insert->execute([json_encode($titles)]);
$ids = $insert->fetchAll(PDO::FETCH_COLUMN);

$select = $pdo->prepare('SELECT id_time(:id), id_shard(:id)');
$select->execute(['id' => $first]);
[$madeAt, $shard] = $select->fetch(PDO::FETCH_NUM);
$isNow = abs(time() - strtotime($madeAt)) < 60 ? 'true' : 'false';
$select = $pdo->prepare("SELECT title FROM insta5.photos WHERE id_between(id, ?, ?::timestamptz + '1 minute') ORDER BY id");
$select->execute([$madeAt, $madeAt]);
$since = $select->fetchAll(PDO::FETCH_COLUMN);
echo "shard $shard: made now: $isNow, $since[0] to ", end($since), "\n";

$sorted = array_unique($ids);
sort($sorted);
echo count($sorted), ' ids, in order: ', json_encode($sorted === $ids), "\n";
// A number in JSON, which a browser would round, and a string.
echo json_encode(['id' => 1671372309237077023]), ' ', json_encode(['id' => (string) 1671372309237077023]), "\n";
