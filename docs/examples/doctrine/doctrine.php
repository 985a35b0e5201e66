<?php

// Doctrine's command line: php doctrine.php orm:schema-tool:update --force

use Doctrine\ORM\Tools\Console\ConsoleRunner;
use Doctrine\ORM\Tools\Console\EntityManagerProvider\SingleManagerProvider;

$em = require __DIR__ . '/bootstrap.php';
ConsoleRunner::run(new SingleManagerProvider($em));
