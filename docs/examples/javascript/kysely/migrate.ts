// Runs the migrations: `npx tsx kysely/migrate.ts`.

import { Migrator, sql, type Kysely, type Migration } from 'kysely';
import { db } from './database.ts';

const shardAndPhotos: Migration = {
  async up(db: Kysely<any>) {
    await sql`CREATE EXTENSION IF NOT EXISTS instagram_id`.execute(db);
    await sql`SELECT create_shard(5, if_not_exists => true)`.execute(db);
    await db.schema.withSchema('insta5').createTable('photos')
      .addColumn('id', 'bigint', (column) => column.primaryKey().defaultTo(sql`insta5.next_id()`))
      .addColumn('title', 'text', (column) => column.notNull())
      .execute();
  },

  // Keeps the shard: a new one would not know the ids that this one has generated, and could repeat them.
  async down(db: Kysely<any>) {
    await db.schema.withSchema('insta5').dropTable('photos').execute();
  },
};

const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ '001_shard_and_photos': shardAndPhotos }) } });
const { error, results } = await migrator.migrateToLatest();
if (error) throw error;
console.log('migrations:', results!.map(({ migrationName, status }) => `${migrationName} ${status}`).join(', ') || 'none');
await db.destroy();
