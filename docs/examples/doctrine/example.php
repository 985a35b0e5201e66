<?php

// Inserts photos into shard 5 and reads them back, after `php doctrine.php orm:schema-tool:update --force`.

$em = require __DIR__ . '/bootstrap.php';

$first = new Photo('first');
$em->persist($first); // from here on it has an id
$em->flush();

for ($n = 0; $n < 1000; $n++) {
    $em->persist(new Photo("photo $n"));
}
$em->flush();

[$madeAt, $shard] = $em->getConnection()->fetchNumeric('SELECT id_time(?), id_shard(?)', [$first->id, $first->id]);
$isNow = abs(time() - strtotime($madeAt)) < 60 ? 'true' : 'false';
$floor = $em->getConnection()->fetchOne('SELECT id_floor(?)', [$madeAt]);
$since = $em->createQuery('SELECT p FROM Photo p WHERE p.id >= ?0 ORDER BY p.id')->setParameters([$floor])->getResult();
echo "shard $shard: made now: $isNow, {$since[0]->title} to ", end($since)->title, "\n";
