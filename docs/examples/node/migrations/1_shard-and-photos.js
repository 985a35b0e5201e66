export function up(pgm) {
  pgm.createExtension('instagram_id', { ifNotExists: true });
  pgm.sql('SELECT create_shard(5, if_not_exists => true)');
  pgm.createTable({ schema: 'insta5', name: 'photos' }, {
    // A function call is to be marked as one: a string would be quoted, and be no number.
    id: { type: 'bigint', primaryKey: true, default: pgm.func('insta5.next_id()') },
    title: { type: 'text', notNull: true },
  });
}

// The shard stays: without its sequence it would make ids a second time that are elsewhere already.
export function down(pgm) {
  pgm.dropTable({ schema: 'insta5', name: 'photos' });
}
