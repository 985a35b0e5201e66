# Does what `rails db:migrate`, `db:schema:dump` and `db:schema:load` do in an application with this config/application.rb:
#
#     config.active_record.schema_format = :sql   # schema.rb has neither schemas nor shards
#     config.active_record.dump_schemas = :all    # needed for the extension if schema_search_path is set
#
#     ruby tasks.rb migrate|dump|load

require "active_record"

ActiveRecord::Base.configurations = { default_env: { adapter: "postgresql", database: ENV.fetch("PGDATABASE") } }
ActiveRecord::Base.dump_schemas = :all
ActiveRecord::Base.establish_connection
ActiveRecord::Migration.verbose = false

tasks = ActiveRecord::Tasks::DatabaseTasks
tasks.db_dir = "db"
config = ActiveRecord::Base.connection_db_config
case ARGV.first
when "migrate" then ActiveRecord::MigrationContext.new("db/migrate", ActiveRecord::SchemaMigration).migrate
when "dump" then tasks.dump_schema(config, :sql)
when "load" then tasks.load_schema(config, :sql)
end
