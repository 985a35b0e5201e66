class ShardRouter:
    """The app's tables are in the shards, all others are in `default`."""

    def allow_migrate(self, db, app_label, **hints):
        return (app_label == "photos") == db.startswith("insta")
