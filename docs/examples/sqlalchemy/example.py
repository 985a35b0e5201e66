"""Inserts photos into shard 5 and reads them back, after `alembic upgrade head`."""

from datetime import datetime, timedelta, timezone

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models import Photo, engine

with Session(engine) as session:
    first = Photo(title="first")
    session.add(first)
    session.flush()  # INSERT ... RETURNING id

    session.add_all([Photo(title=f"photo {n}") for n in range(1000)])
    session.commit()  # one INSERT ... RETURNING id, because the default is monotonic

    made_at, shard = session.execute(select(func.id_time(first.id), func.id_shard(first.id))).one()
    is_now = abs(datetime.now(timezone.utc) - made_at) < timedelta(minutes=1)
    since = select(Photo).where(func.id_between(Photo.id, made_at, made_at + timedelta(minutes=1)))
    titles = [photo.title for photo in session.scalars(since.order_by(Photo.id))]
    print(f"shard {shard}: made now: {is_now}, {titles[0]} to {titles[-1]}")
