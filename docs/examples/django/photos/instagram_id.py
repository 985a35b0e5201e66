"""The functions of the extension, for Django's expressions."""

from django.db import connections, models
from django.db.models import Func


class NextId(Func):
    """For db_default. When the table is created this is resolved to the next_id() of the shard in search_path."""

    function = "next_id"
    arity = 0


class IdTime(Func):
    """The shard's own id_time(), which uses the shard's epoch."""

    function = "id_time"
    arity = 1
    output_field = models.DateTimeField()


class IdShard(Func):
    function = "public.id_shard"  # the extension's schema is not in search_path
    arity = 1
    output_field = models.IntegerField()


class IdBetween(Func):
    """For filter(): ids from a time up to, but not including, another. An index condition on id."""

    function = "public.id_between"
    arity = 3
    output_field = models.BooleanField()


def next_ids(using, shard, count):
    """Ids for bulk_create(), which before Django 6.0 does not return ids that the database generates (ticket 36260)."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT public.next_ids(%s, %s)", [shard, count])
        return [row[0] for row in cursor]


def make_shard(using, **kwargs):
    """A handler of pre_migrate: `migrate --database=insta5` creates shard 5 if it does not exist. A migration would be
    too late, since the table django_migrations is created in the schema before it."""
    if not using.startswith("insta"):
        return
    with connections[using].cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS instagram_id SCHEMA public")
        cursor.execute("SELECT public.create_shard(%s, if_not_exists => true)", [int(using.removeprefix("insta"))])
