"""Inserts photos into two shards and reads them back, after `manage.py migrate --database=insta5` and `=insta6`."""

import os
from datetime import timedelta

import django
from django.utils import timezone

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()

from photos.instagram_id import IdBetween, IdShard, IdTime, next_ids  # noqa: E402
from photos.models import Photo  # noqa: E402

for shard in 5, 6:
    photos = Photo.objects.using(f"insta{shard}")
    first = photos.create(title="first")  # INSERT ... RETURNING id
    ids = next_ids(photos.db, shard, 1000)
    photos.bulk_create([Photo(id=id, title=f"photo {n}") for n, id in enumerate(ids)])

    first = photos.annotate(made_at=IdTime("id"), shard=IdShard("id")).get(pk=first.pk)
    is_now = abs(timezone.now() - first.made_at) < timedelta(minutes=1)
    since = photos.filter(IdBetween("id", first.made_at, first.made_at + timedelta(minutes=1))).order_by("id")
    print(f"shard {first.shard}: made now: {is_now}, {since.first().title} to {since.last().title}")
