import type { MigrationInterface, QueryRunner } from 'typeorm';

export class ShardAndPhotos1700000000000 implements MigrationInterface {
  async up(db: QueryRunner) {
    await db.query('CREATE EXTENSION IF NOT EXISTS instagram_id');
    await db.query('SELECT create_shard(5, if_not_exists => true)');
    // As `migration:generate` writes it.
    await db.query(`
      CREATE TABLE "insta5"."photos" (
        "id" bigint NOT NULL DEFAULT insta5.next_id(),
        "title" text NOT NULL,
        CONSTRAINT "PK_5220c45b8e32d49d767b9b3d725" PRIMARY KEY ("id")
      )`);
  }

  // Keeps the shard: a new one would not know the ids that this one has generated, and could repeat them.
  async down(db: QueryRunner) {
    await db.query('DROP TABLE "insta5"."photos"');
  }
}
