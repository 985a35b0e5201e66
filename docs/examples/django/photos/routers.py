class ShardRouter:
    """The app's tables are in the shards, and all other tables in `default`."""

    def allow_migrate(self, db, app_label, **hints):
        return (app_label == "photos") == db.startswith("insta")
