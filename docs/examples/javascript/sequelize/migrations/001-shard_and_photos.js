import { DataTypes, literal } from 'sequelize';

export async function up({ context }) {
  await context.sequelize.query('CREATE EXTENSION IF NOT EXISTS instagram_id');
  await context.sequelize.query('SELECT create_shard(5, if_not_exists => true)');
  await context.createTable({ schema: 'insta5', tableName: 'photos' }, {
    id: { type: DataTypes.BIGINT, primaryKey: true, defaultValue: literal('insta5.next_id()') },
    title: { type: DataTypes.TEXT, allowNull: false },
  });
}

// Keeps the shard: a new one would not know the ids that this one has generated, and could repeat them.
export async function down({ context }) {
  await context.dropTable({ schema: 'insta5', tableName: 'photos' });
}
