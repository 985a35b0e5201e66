import { DataTypes, Sequelize, literal } from 'sequelize';

export const db = new Sequelize(process.env.PGDATABASE, process.env.PGUSER, null, {
  dialect: 'postgres',
  host: process.env.PGHOST,
  port: process.env.PGPORT,
  logging: false,
});

export const Photo = db.define('photo', {
  // Not autoIncrement: that would be a sequence of its own.
  id: { type: DataTypes.BIGINT, primaryKey: true, defaultValue: literal('insta5.next_id()') },
  title: { type: DataTypes.TEXT, allowNull: false },
}, { schema: 'insta5', tableName: 'photos', timestamps: false });
