"""Inserts a photo, and finds it by its public ids. The server comes from PGHOST, PGUSER and so on."""

from uuid import UUID

import psycopg

from opaque_ids import OpaqueIds, ShortOpaqueIds

# Keys of test vectors. Keep yours where the application keeps its other secrets.
KEY = bytes(range(16))
SHORT_KEY = bytes(range(24))

ids, short_ids = OpaqueIds(KEY), ShortOpaqueIds(SHORT_KEY)
print(ids.hide(1671372309237077023), short_ids.hide(1671372309237077023))
try:
    ids.reveal(UUID(int=ids.hide(1671372309237077023).int + 1))
except ValueError as error:
    print(error)

with psycopg.connect() as connection:
    connection.execute("CREATE EXTENSION IF NOT EXISTS instagram_id")
    connection.execute("SELECT create_shard(5, if_not_exists => true)")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text)"
    )
    insert = "INSERT INTO insta5.photos (title) VALUES ('hello') RETURNING id"
    (id,) = connection.execute(insert).fetchone()
    select = "SELECT title FROM insta5.photos WHERE id = %s"
    for opaque in (ids, short_ids):
        public = opaque.hide(id)  # a client gets this, and sends it back
        print(connection.execute(select, (opaque.reveal(public),)).fetchone())
