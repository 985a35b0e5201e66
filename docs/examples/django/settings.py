import os

SECRET_KEY = "only for this example"
USE_TZ = True
INSTALLED_APPS = ["photos.apps.PhotosConfig"]

SERVER = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": os.environ["PGDATABASE"],
    "HOST": os.environ.get("PGHOST", ""),
    "PORT": os.environ.get("PGPORT", ""),
    "USER": os.environ.get("PGUSER", ""),
}


def shard(number):
    """A logical shard is a schema, and one of Django's databases. Its search_path has only that schema: with public
    in it, migrate would find the table django_migrations of `default` there, and do nothing. Tests create a database
    for each of Django's databases; these need different names, or only the first would be migrated."""
    options = {"options": f"-c search_path=insta{number}"}
    return {**SERVER, "OPTIONS": options, "TEST": {"NAME": f"test_insta{number}"}}


DATABASES = {"default": SERVER, "insta5": shard(5), "insta6": shard(6)}
DATABASE_ROUTERS = ["photos.routers.ShardRouter"]
