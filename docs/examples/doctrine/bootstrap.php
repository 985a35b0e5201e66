<?php

require_once 'Doctrine/ORM/autoload.php'; // Debian's packages; with Composer, vendor/autoload.php
require_once __DIR__ . '/src/NextId.php';
require_once __DIR__ . '/src/Photo.php';

use Doctrine\DBAL\DriverManager;
use Doctrine\DBAL\Schema\AbstractAsset;
use Doctrine\ORM\EntityManager;
use Doctrine\ORM\ORMSetup;

$config = ORMSetup::createAttributeMetadataConfiguration([__DIR__ . '/src'], isDevMode: true);
// Otherwise the schema tool drops the sequences of the shards: no entity maps them.
$config->setSchemaAssetsFilter(
    fn (string|AbstractAsset $asset) => !preg_match('/\btable_id_seq$/', is_string($asset) ? $asset : $asset->getName())
);
$connection = DriverManager::getConnection([
    'driver' => 'pdo_pgsql',
    'host' => getenv('PGHOST'),
    'port' => getenv('PGPORT'),
    'user' => getenv('PGUSER'),
    'dbname' => getenv('PGDATABASE'),
], $config);

return new EntityManager($connection, $config);
