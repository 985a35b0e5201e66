"""The shard and its photos"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade():
    op.execute("CREATE EXTENSION IF NOT EXISTS instagram_id")
    op.execute("SELECT create_shard(5, if_not_exists => true)")
    op.create_table(
        "photos",
        sa.Column("id", sa.BigInteger, primary_key=True, server_default=sa.text("insta5.next_id()")),
        sa.Column("title", sa.Text, nullable=False),
        schema="insta5",
    )


def downgrade():
    # Keeps the shard: a new one would not know the ids that this one has generated, and could repeat them.
    op.drop_table("photos", schema="insta5")
