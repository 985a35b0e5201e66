"""Inserts photos into the shard of their user, and reads them back by their ids.

    route.py MAP USER TITLE...      MAP is the map's database: "host=a.example.net dbname=map"

Uses psycopg 3. For each photo it prints the id, the name of the server, the user and the title.
"""

import sys
import time

import psycopg

SHARDS = 2000  # number of logical shards; never changes
FRESH = 2.0  # seconds after which the map is read again
PATIENCE = 5.0  # seconds to wait for a shard that is being moved
PAUSE = 0.02  # seconds between attempts

READ_ONLY = "25006"  # the shard is being moved or has moved
LOST = (None, "57P01", "57P02", "57P03")  # no answer from the server, or it is stopping or starting


class Router:
    def __init__(self, map_conninfo):
        self.map_conninfo = map_conninfo
        self.version = 0  # largest version read from the map
        self.server_of = {}  # by shard
        self.conninfo_of = {}  # by server
        self.read_at = None
        self.connections = {}  # by conninfo

    def add_photo(self, user, title):
        """Generates the id first: then the insert can be retried, even if it was committed already."""
        shard = shard_of_user(user)
        (photo_id,) = self.run(shard, lambda on, _: on.execute("SELECT next_id(%s)", [shard]).fetchone())
        self.run(shard, lambda on, lost: insert(on, shard, [photo_id, user, title], lost))
        return photo_id

    def photo(self, photo_id):
        shard = shard_of_id(photo_id)
        select = f"SELECT user_id, title FROM insta{shard}.photos WHERE id = %s"
        return self.run(shard, lambda on, _: on.execute(select, [photo_id]).fetchone())

    def run(self, shard, work):
        """Does the work in a transaction on the shard's server. If the shard has moved, retries on its new server.

        The work also gets whether a connection was lost: then an earlier attempt may have been committed.
        """
        deadline = time.monotonic() + PATIENCE
        lost = False
        while True:
            try:
                if self.read_at is None or time.monotonic() > self.read_at + FRESH:
                    self.refresh()
                connection = self.connect(self.conninfo_of[self.server_of[shard]])
                with connection.transaction():
                    return work(connection, lost)
            except psycopg.Error as error:
                is_lost = isinstance(error, psycopg.OperationalError) and error.sqlstate in LOST
                if not (is_lost or error.sqlstate == READ_ONLY) or time.monotonic() > deadline:
                    raise
                lost = lost or is_lost
            self.read_at = None
            time.sleep(PAUSE)

    def refresh(self):
        try:
            self.read_map()
        except psycopg.OperationalError:
            if not self.server_of:
                raise
            # The map is unavailable. The copy is valid until a shard moves.
        self.read_at = time.monotonic()

    def read_map(self):
        """Reads new versions from the map, and then all servers, so that the server of each shard is among them."""
        the_map = self.connect(self.map_conninfo)
        newer = "SELECT shard, server, version FROM shard_map.shards WHERE version > %s ORDER BY version"
        changes = the_map.execute(newer, [self.version]).fetchall()
        self.conninfo_of = dict(the_map.execute("SELECT server, conninfo FROM shard_map.servers").fetchall())
        for shard, server, version in changes:
            self.server_of[shard] = server
            self.version = version

    def connect(self, conninfo):
        connection = self.connections.get(conninfo)
        if connection is None or connection.closed:
            connection = self.connections[conninfo] = psycopg.connect(conninfo, autocommit=True)
        return connection


def insert(on, shard, photo, lost):
    """Inserts a row. Another row with its id is an error (23505), except the row of an earlier attempt."""
    sql = f"INSERT INTO insta{shard}.photos (id, user_id, title) VALUES (%s, %s, %s)"
    same = f"SELECT 1 FROM insta{shard}.photos WHERE id = %s AND user_id = %s AND title = %s"
    if lost and (on.execute(f"{sql} ON CONFLICT (id) DO NOTHING", photo).rowcount or on.execute(same, photo).rowcount):
        return
    on.execute(sql, photo)


def shard_of_user(user):
    return user % SHARDS  # shard_for(user, 2000)


def shard_of_id(photo_id):
    return photo_id >> 10 & 8191  # id_shard(photo_id)


def main(map_conninfo, user, *titles):
    router = Router(map_conninfo)
    for title in titles:
        photo_id = router.add_photo(int(user), title)
        photo = router.photo(photo_id)
        print(photo_id, router.server_of[shard_of_id(photo_id)], *photo, flush=True)


main(*sys.argv[1:])
