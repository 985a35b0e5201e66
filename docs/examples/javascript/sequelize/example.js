// Inserts photos into shard 5 and reads them back, after `node sequelize/migrate.js up`.

import { Op } from 'sequelize';
import { floorOf, shardOf, timeOf } from '../ids.ts';
import { Photo, db } from './database.js';

const first = await Photo.create({ title: 'first' }); // PGHOST, PGPORT, PGUSER, PGDATABASE
const time = timeOf(first.id);
console.log('an id is a', typeof first.id);
console.log('shard', shardOf(first.id), '| made now:', Math.abs(Date.now() - time.getTime()) < 60_000);

// Many rows: one statement, which returns the ids in order.
const titles = Array.from({ length: 1000 }, (_, n) => ({ title: `photo ${n}` }));
const inserted = await Photo.bulkCreate(titles, { returning: ['id'] });
console.log('in order:', inserted.every(({ id }, n) => n === 0 || BigInt(inserted[n - 1].id) < BigInt(id)));

// A minute, by the key.
const minute = { [Op.gte]: floorOf(time), [Op.lt]: floorOf(new Date(time.getTime() + 60_000)) };
const found = await Photo.findAll({ where: { id: minute }, order: ['id'] });
console.log('of a minute:', found.at(0).title, 'to', found.at(-1).title);

console.log('exact in JSON:', JSON.parse(JSON.stringify(first)).id === first.id);
await db.close();
