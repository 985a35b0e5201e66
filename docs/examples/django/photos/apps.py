from django.apps import AppConfig
from django.db.models.signals import pre_migrate

from .instagram_id import make_shard


class PhotosConfig(AppConfig):
    name = "photos"

    def ready(self):
        pre_migrate.connect(make_shard, sender=self)
