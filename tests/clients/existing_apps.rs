//! The lines of docs/use/existing_apps.md for Django and Rails, in applications that have their
//! tables and keys already.

use crate::clients::{Example, require};
use instagram_id_live::*;

const PAGE: &str = include_str!("../../docs/use/existing_apps.md");

/// Creates the extension, and the shard of the page.
fn create_shard(example: &Example, database: &str) {
    let create = "SELECT create_shard(0, epoch => '2021-01-01 00:00+00');  -- insta0";
    assert!(PAGE.contains(create));
    run(
        &mut example.server.connect_to(database),
        &format!("CREATE EXTENSION instagram_id; {create}"),
    );
}

/// The keys of 1,000 rows of serial keys or an identity, and then of 1,000 rows and one with ids.
#[track_caller]
fn assert_keys(example: &Example, database: &str, table: &str, old: i64, new: i64) {
    let is_id = "id >= id_floor(now() - interval '1 hour', insta0.epoch())";
    let count = |condition: &str| -> i64 {
        let query = format!("SELECT count(*) FROM {table} WHERE {condition}");
        one(&mut example.server.connect_to(database), &query)
    };
    assert_eq!((count("id <= 2000"), count(is_id)), (old, new), "{database}");
}

const SETTINGS: &str = "
import os
SECRET_KEY = 'only for this test'
DEFAULT_AUTO_FIELD = 'django.db.models.BigAutoField'
INSTALLED_APPS = ['blog']
DATABASES = {'default': {
    'ENGINE': 'django.db.backends.postgresql', 'NAME': os.environ['PGDATABASE'],
    'HOST': os.environ['PGHOST'], 'PORT': os.environ['PGPORT'], 'USER': os.environ['PGUSER'],
}}
";

const MODELS: &str = "
from django.db import models

class Post(models.Model):
    title = models.TextField()
";

/// `bulk_create()` returns the keys, and a row that comes later has a greater one.
const INSERT: &str = "
import os
import django
os.environ['DJANGO_SETTINGS_MODULE'] = 'settings'
django.setup()
from blog.models import Post

posts = Post.objects.bulk_create([Post(title=str(n)) for n in range(1000)])
keys = [post.pk for post in posts]
print(len(set(keys)), keys == sorted(keys), Post.objects.create(title='last').pk > keys[-1])
";

#[test]
fn django() {
    let line = blocks(PAGE, "python")[0].trim();
    let example = Example::empty();
    example.write("settings.py", SETTINGS);
    example.write("manage.py", include_str!("../../docs/examples/django/manage.py"));
    example.write("blog/__init__.py", "");
    example.write("blog/models.py", MODELS);
    example.write("insert.py", INSERT);
    let insert = |database: &str| {
        assert_eq!(example.run(database, "python3 insert.py"), "1000 True True\n");
    };
    let manage = |database: &str, arguments: &str| {
        example.run(database, &format!("python3 manage.py {arguments}"));
    };
    manage("first", "makemigrations blog -v0");
    manage("first", "migrate -v0");
    insert("first");
    example.write(
        "blog/migrations/0002_ids.py",
        &format!(
            "from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [('blog', '0001_initial')]
    operations = [{line}]
"
        ),
    );
    create_shard(&example, "first");
    manage("first", "migrate -v0");
    manage("first", "makemigrations --check");
    insert("first");
    assert_keys(&example, "first", "blog_post", 1001, 1001);
    // All migrations in a new database.
    create_shard(&example, "second");
    manage("second", "migrate -v0");
    insert("second");
    assert_keys(&example, "second", "blog_post", 0, 1001);
}

#[test]
fn rails() {
    require(
        "Active Record",
        "ruby -e 'require %q(active_record); require %q(pg)'",
        "scripts/setup.sh clients",
    );
    let line = PAGE.split('`').find(|code| code.starts_with("execute ")).expect("a line for Rails");
    let example = Example::empty();
    example.write("tasks.rb", include_str!("../../docs/examples/rails/tasks.rb"));
    let migration = |version: &str, name: &str, body: &str| {
        example.write(
            &format!("db/migrate/{version}.rb"),
            &format!(
                "class {name} < ActiveRecord::Migration[6.1]\n  def up\n    {body}\n  end\nend\n"
            ),
        );
    };
    example.write(
        "insert.rb",
        "require 'active_record'

ActiveRecord::Base.establish_connection(adapter: 'postgresql')
class Post < ActiveRecord::Base
end
keys = Post.insert_all!((0...1000).map { |n| { title: n.to_s } }).rows.flatten
puts [keys.uniq.size, keys == keys.sort, Post.create!(title: 'last').id > keys.last].join(' ')
",
    );
    let insert = |database: &str| {
        assert_eq!(example.run(database, "ruby insert.rb"), "1000 true true\n");
    };
    migration(
        "20260101000001_create_posts",
        "CreatePosts",
        "create_table(:posts) { |t| t.text :title }",
    );
    example.run("first", "ruby tasks.rb migrate");
    insert("first");
    create_shard(&example, "first");
    migration("20260101000002_use_ids", "UseIds", line);
    example.run("first", "ruby tasks.rb migrate");
    insert("first");
    assert_keys(&example, "first", "posts", 1001, 1001);
    example.run("first", "ruby tasks.rb dump");
    example.run("second", "ruby tasks.rb load");
    run(&mut example.server.connect_to("second"), "SELECT claim_shard(0)");
    insert("second");
    assert_keys(&example, "second", "posts", 0, 1001);
}
