class CreatePhotos < ActiveRecord::Migration[6.1]
  def up
    enable_extension "instagram_id"
    execute "SELECT create_shard(5, if_not_exists => true)"
    # Not "id: :bigserial", which is what Rails makes unless told otherwise.
    create_table "insta5.photos", id: :bigint, default: -> { "insta5.next_id()" } do |t|
      t.text :title, null: false
    end
  end

  # The shard stays: without its sequence it would make ids a second time that are elsewhere already.
  def down
    drop_table "insta5.photos"
  end
end
