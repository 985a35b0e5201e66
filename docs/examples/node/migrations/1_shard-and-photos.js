export function up(pgm) {
  pgm.createExtension('instagram_id', { ifNotExists: true });
  pgm.sql('SELECT create_shard(5, if_not_exists => true)');
  pgm.createTable({ schema: 'insta5', name: 'photos' }, {
    // pgm.func marks a function call. A string would be quoted, and is not a number.
    id: { type: 'bigint', primaryKey: true, default: pgm.func('insta5.next_id()') },
    title: { type: 'text', notNull: true },
  });
}

// Keeps the shard: a new one would not know the ids that this one has generated, and could repeat them.
export function down(pgm) {
  pgm.dropTable({ schema: 'insta5', name: 'photos' });
}
