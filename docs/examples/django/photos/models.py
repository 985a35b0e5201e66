from django.db import models

from .instagram_id import NextId


class Photo(models.Model):
    # Not a BigAutoField: that would be an identity column, with its own sequence.
    id = models.BigIntegerField(primary_key=True, db_default=NextId(), editable=False)
    title = models.TextField()

    class Meta:
        db_table = "photos"
