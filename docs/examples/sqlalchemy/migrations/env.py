from alembic import context

from models import Base, engine


def only_shard(name, type_, parent_names):
    return type_ != "schema" or name == Base.metadata.schema


with engine.connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        include_schemas=True,  # compare insta5, not only the schema that is first in search_path
        include_name=only_shard,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()
