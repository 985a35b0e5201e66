import { sql } from 'drizzle-orm';
import { bigint, pgSchema, text } from 'drizzle-orm/pg-core';

export const insta5 = pgSchema('insta5');

// For `drizzle-kit push`, which drops sequences that the schema does not name. Never the sequence of a column.
export const tableIdSeq = insta5.sequence('table_id_seq', { maxValue: '1125899906842623' });

export const photos = insta5.table('photos', {
  id: bigint({ mode: 'bigint' }).primaryKey().default(sql`insta5.next_id()`), // not 'number', which rounds ids
  title: text().notNull(),
});
