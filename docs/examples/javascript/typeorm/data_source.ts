import { DataSource } from 'typeorm';
import { Photo } from './photo.ts';
import { ShardAndPhotos1700000000000 } from './migrations/1700000000000-shard_and_photos.ts';

export const db = new DataSource({
  type: 'postgres',
  host: process.env.PGHOST,
  port: Number(process.env.PGPORT ?? 5432),
  username: process.env.PGUSER,
  database: process.env.PGDATABASE,
  entities: [Photo],
  migrations: [ShardAndPhotos1700000000000],
});
