<?php

use Doctrine\ORM\EntityManagerInterface;
use Doctrine\ORM\Id\AbstractIdGenerator;

/** Ids of the shard whose schema contains the entity's table. */
class NextId extends AbstractIdGenerator
{
    private array $block = [];

    public function generateId(EntityManagerInterface $em, $entity): string
    {
        if ($this->block === []) {
            $schema = $em->getClassMetadata($entity::class)->getSchemaName();
            $connection = $em->getConnection();
            // After a crash, ids of a transaction that had not committed may be issued again: keep none of them.
            $count = $connection->isTransactionActive() ? 1 : 50;
            $ids = "SELECT $schema.next_id() FROM generate_series(1, ?)";
            $this->block = $connection->fetchFirstColumn($ids, [$count]);
        }

        return array_shift($this->block);
    }
}
