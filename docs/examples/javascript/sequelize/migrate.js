// Runs the migrations: `node sequelize/migrate.js up`.

import { SequelizeStorage, Umzug } from 'umzug';
import { db } from './database.js';

const umzug = new Umzug({
  migrations: { glob: 'sequelize/migrations/*.js' },
  context: db.getQueryInterface(),
  storage: new SequelizeStorage({ sequelize: db }),
  logger: undefined,
});
await umzug.runAsCLI();
await db.close();
