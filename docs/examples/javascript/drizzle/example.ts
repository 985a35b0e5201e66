// Inserts photos into shard 5 and reads them back, after `npx drizzle-kit migrate --config=drizzle/drizzle.config.ts`.

import { and, asc, gte, lt } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import { floorOf, shardOf, timeOf } from '../ids.ts';
import { photos } from './schema.ts';

const pool = new pg.Pool(); // PGHOST, PGPORT, PGUSER, PGDATABASE
const db = drizzle(pool);

const [first] = await db.insert(photos).values({ title: 'first' }).returning();
const time = timeOf(first.id);
console.log('an id is a', typeof first.id);
console.log('shard', shardOf(first.id), '| made now:', Math.abs(Date.now() - time.getTime()) < 60_000);

// Many rows: one statement, which returns the ids in order.
const titles = Array.from({ length: 1000 }, (_, n) => ({ title: `photo ${n}` }));
const inserted = await db.insert(photos).values(titles).returning({ id: photos.id });
console.log('in order:', inserted.every(({ id }, n) => n === 0 || inserted[n - 1].id < id));

// A minute, by the key.
const minute = [time, new Date(time.getTime() + 60_000)].map((time) => BigInt(floorOf(time)));
const found = await db.select().from(photos)
  .where(and(gte(photos.id, minute[0]), lt(photos.id, minute[1])))
  .orderBy(asc(photos.id));
console.log('of a minute:', found.at(0)!.title, 'to', found.at(-1)!.title);

// JSON has no bigint: JSON.stringify raises an error for one.
console.log('exact in JSON:', JSON.parse(JSON.stringify({ id: String(first.id) })).id === String(first.id));
await pool.end();
