<?php

// Creates the extension and the shard: the first migration of an application.

$connection = (require __DIR__ . '/bootstrap.php')->getConnection();
$connection->executeStatement('CREATE EXTENSION IF NOT EXISTS instagram_id');
$connection->executeStatement('SELECT create_shard(5, if_not_exists => true)');
