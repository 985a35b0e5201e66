"""Models of Django and SQLAlchemy that do not mention ids; their tables are in the schema insta5."""

import os

import django
from django.conf import settings
from sqlalchemy import BigInteger, ForeignKey, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

SEARCH_PATH = "-c search_path=insta5"

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ["PGDATABASE"],
            "OPTIONS": {"options": SEARCH_PATH},
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.db import connection, models  # noqa: E402


class Photo(models.Model):
    title = models.TextField()

    class Meta:
        app_label = "unchanged"
        db_table = "photos"


class Comment(models.Model):
    photo = models.ForeignKey(Photo, on_delete=models.CASCADE)

    class Meta:
        app_label = "unchanged"
        db_table = "comments"


class Base(DeclarativeBase):
    pass


class Album(Base):
    __tablename__ = "albums"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    pages: Mapped[list["Page"]] = relationship()


class Page(Base):
    __tablename__ = "pages"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    album_id: Mapped[int] = mapped_column(ForeignKey("albums.id"))


def show(name, ids):
    shards = {id >> 10 & 8191 for id in ids}
    print(f"{name}: {len(set(ids))} ids of shard {shards}, in order: {ids == sorted(ids)}")


with connection.schema_editor() as editor:
    editor.create_model(Photo)
    editor.create_model(Comment)
photo = Photo.objects.create(title="first")
photos = Photo.objects.bulk_create([Photo(title=str(n)) for n in range(10)])
comment = Comment.objects.create(photo=photo)
show("Django", [photo.pk, *(photo.pk for photo in photos), comment.pk])

engine = create_engine("postgresql+psycopg://", connect_args={"options": SEARCH_PATH})
Base.metadata.create_all(engine)
with Session(engine) as session:
    albums = [Album(pages=[Page(), Page()]) for _ in range(5)]
    session.add_all(albums)
    session.commit()
    show("SQLAlchemy", [album.id for album in albums])
    show("SQLAlchemy", [page.id for album in albums for page in album.pages])
