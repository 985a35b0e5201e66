class CreatePhotos < ActiveRecord::Migration[6.1]
  def up
    enable_extension "instagram_id"
    execute "SELECT create_shard(5, if_not_exists => true)"
    # Not "id: :bigserial", the default of Rails.
    create_table "insta5.photos", id: :bigint, default: -> { "insta5.next_id()" } do |t|
      t.text :title, null: false
    end
  end

  # Keeps the shard: a new one would not know the ids that this one has generated, and could repeat them.
  def down
    drop_table "insta5.photos"
  end
end
