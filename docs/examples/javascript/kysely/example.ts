// Inserts photos into shard 5 and reads them back, after `npx tsx kysely/migrate.ts`.

import { floorOf, shardOf, timeOf } from '../ids.ts';
import { db } from './database.ts';

const first = await db.insertInto('insta5.photos').values({ title: 'first' }).returning('id').executeTakeFirstOrThrow();
const time = timeOf(first.id);
console.log('an id is a', typeof first.id);
console.log('shard', shardOf(first.id), '| made now:', Math.abs(Date.now() - time.getTime()) < 60_000);

// Many rows: one statement, which returns the ids in order.
const titles = Array.from({ length: 1000 }, (_, n) => ({ title: `photo ${n}` }));
const inserted = await db.insertInto('insta5.photos').values(titles).returning('id').execute();
console.log('in order:', inserted.every(({ id }, n) => n === 0 || BigInt(inserted[n - 1].id) < BigInt(id)));

// A minute, by the key.
const found = await db.selectFrom('insta5.photos').selectAll()
  .where('id', '>=', floorOf(time))
  .where('id', '<', floorOf(new Date(time.getTime() + 60_000)))
  .orderBy('id')
  .execute();
console.log('of a minute:', found.at(0)!.title, 'to', found.at(-1)!.title);

console.log('exact in JSON:', JSON.parse(JSON.stringify(first)).id === first.id);
await db.destroy();
