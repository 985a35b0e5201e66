from django.db import migrations, models

from photos.instagram_id import NextId


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            name="Photo",
            fields=[
                (
                    "id",
                    models.BigIntegerField(db_default=NextId(), editable=False, primary_key=True, serialize=False),
                ),
                ("title", models.TextField()),
            ],
            options={"db_table": "photos"},
        ),
    ]
