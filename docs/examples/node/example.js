// Inserts photos into shard 5 and reads them back, after `npx node-pg-migrate up`.

import assert from 'node:assert/strict';
import pg from 'pg';
import { floorOf, shardOf, timeOf } from './ids.js';

const db = new pg.Client(); // PGHOST, PGPORT, PGUSER, PGDATABASE
await db.connect();
try {
  const { rows: [first] } = await db.query("INSERT INTO insta5.photos (title) VALUES ('first') RETURNING id");
  console.log('an id is a', typeof first.id);

  // SQL and JavaScript decode it alike.
  const { rows: [sql] } = await db.query(
    'SELECT id_time($1) AS time, id_shard($1) AS shard, id_floor(id_time($1)) AS floor, id_to_shortcode($1) AS code',
    [first.id],
  );
  assert.deepEqual(timeOf(first.id), sql.time);
  assert.equal(shardOf(first.id), sql.shard);
  assert.equal(floorOf(sql.time), sql.floor);
  console.log('shard', shardOf(first.id), '| made now:', Math.abs(Date.now() - timeOf(first.id)) < 60_000);

  // A number in JavaScript or in JSON is rounded to another id.
  const id = '1671372309237077023';
  console.log(id, 'as a number is', BigInt(Number(id)).toString());
  const { rows: [json] } = await db.query(
    `SELECT json_build_object('id', id)::text AS wrong, json_build_object('id', id::text)::text AS right
     FROM (VALUES ($1::bigint)) AS photo (id)`,
    [id],
  );
  console.log('JSON:', JSON.parse(json.wrong).id, 'but', JSON.parse(json.right).id);
  console.log('JSON from here:', JSON.stringify({ id }));

  // The short code, for links.
  const { rows: [link] } = await db.query('SELECT id FROM insta5.photos WHERE id = shortcode_to_id($1)', [sql.code]);
  assert.equal(link.id, first.id);
  console.log('short code:', sql.code.length, 'characters, and back');

  // Many rows, in order.
  const titles = Array.from({ length: 1000 }, (_, n) => `photo ${n}`);
  await db.query('INSERT INTO insta5.photos (title) SELECT unnest($1::text[])', [titles]);
  const { rows } = await db.query(
    'SELECT title FROM insta5.photos WHERE id_between(id, $1, $2) ORDER BY id',
    [sql.time, new Date(sql.time.getTime() + 60_000)],
  );
  console.log('of a minute:', rows.at(0).title, 'to', rows.at(-1).title);
} finally {
  await db.end();
}
