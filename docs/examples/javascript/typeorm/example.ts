// Inserts photos into shard 5 and reads them back, after
// `npx tsx node_modules/typeorm/cli.js migration:run -d typeorm/data_source.ts`.

import { And, LessThan, MoreThanOrEqual } from 'typeorm';
import { floorOf, shardOf, timeOf } from '../ids.ts';
import { db } from './data_source.ts';
import { Photo } from './photo.ts';

await db.initialize(); // PGHOST, PGPORT, PGUSER, PGDATABASE
const photos = db.getRepository(Photo);

const first = await photos.save({ title: 'first' });
const time = timeOf(first.id);
console.log('an id is a', typeof first.id);
console.log('shard', shardOf(first.id), '| made now:', Math.abs(Date.now() - time.getTime()) < 60_000);

// Many rows: one statement, which returns the ids in order.
const titles = Array.from({ length: 1000 }, (_, n) => ({ title: `photo ${n}` }));
const inserted = await photos.save(titles);
console.log('in order:', inserted.every(({ id }, n) => n === 0 || BigInt(inserted[n - 1].id) < BigInt(id)));

// A minute, by the key.
const minute = And(MoreThanOrEqual(floorOf(time)), LessThan(floorOf(new Date(time.getTime() + 60_000))));
const found = await photos.find({ where: { id: minute }, order: { id: 'ASC' } });
console.log('of a minute:', found.at(0)!.title, 'to', found.at(-1)!.title);

console.log('exact in JSON:', JSON.parse(JSON.stringify(first)).id === first.id);
await db.destroy();
