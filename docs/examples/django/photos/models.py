from django.db import models

from .instagram_id import NextId


class Photo(models.Model):
    # No BigAutoField: that would be an identity column, with a sequence of its own.
    id = models.BigIntegerField(primary_key=True, db_default=NextId(), editable=False)
    title = models.TextField()

    class Meta:
        db_table = "photos"
