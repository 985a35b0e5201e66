# Inserts photos into shard 5 and reads them back, after `ruby tasks.rb migrate`. In Rails the connection is in
# config/database.yml.

require "active_record"

ActiveRecord::Base.establish_connection(adapter: "postgresql") # PGHOST, PGPORT, PGUSER, PGDATABASE

class Photo < ActiveRecord::Base
  self.table_name = "insta5.photos"
end

first = Photo.create!(title: "first") # INSERT ... RETURNING id
Photo.insert_all!((0...1000).map { |n| { title: "photo #{n}" } })

made_at, shard = Photo.where(id: first.id).pick(Arel.sql("id_time(id)"), Arel.sql("id_shard(id)"))
since = Photo.where("id_between(id, ?, ?)", made_at, made_at + 60).order(:id)
puts "shard #{shard}: made now: #{(Time.now - made_at).abs < 60}, #{since.first.title} to #{since.last.title}"
