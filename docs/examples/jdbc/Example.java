// Inserts photos into shard 5 and reads them back, with JDBC alone.
//
//     java -cp /usr/share/java/postgresql.jar Example.java jdbc:postgresql://localhost/app?user=app

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.PrimitiveIterator;
import java.util.stream.LongStream;
import javax.sql.DataSource;
import org.postgresql.ds.PGSimpleDataSource;

class Example {
    static final long EPOCH = 1314220021721L; // 2011-08-24 21:07:01.721 UTC

    static long timeOf(long id) { // id_time(id), in ms since 1970
        return (id >>> 23) + EPOCH;
    }

    static int shardOf(long id) { // id_shard(id)
        return (int) (id >>> 10) & 8191;
    }

    /** Ids of a shard, fetched in blocks, for rows whose ids the application sets. */
    static class Ids {
        private static final int BLOCK = 50;
        private final DataSource source;
        private final int shard;
        private PrimitiveIterator.OfLong block = LongStream.empty().iterator();

        Ids(DataSource source, int shard) {
            this.source = source;
            this.shard = shard;
        }

        synchronized long next() throws SQLException {
            if (!block.hasNext()) {
                block = fetch();
            }
            return block.nextLong();
        }

        /** Not in the caller's transaction: after a crash before its commit the block could be issued again. */
        private PrimitiveIterator.OfLong fetch() throws SQLException {
            try (Connection connection = source.getConnection(); // in autocommit
                    PreparedStatement select = connection.prepareStatement("SELECT next_ids(?, ?)")) {
                select.setInt(1, shard); // there is no such function for a long
                select.setInt(2, BLOCK);
                LongStream.Builder ids = LongStream.builder();
                ResultSet rows = select.executeQuery();
                while (rows.next()) {
                    ids.add(rows.getLong(1));
                }
                return ids.build().iterator();
            }
        }
    }

    static void makeTable(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE EXTENSION IF NOT EXISTS instagram_id");
            statement.execute("SELECT create_shard(5, if_not_exists => true)");
            statement.execute("CREATE TABLE IF NOT EXISTS insta5.photos"
                    + " (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text NOT NULL)");
        }
    }

    /** The default generates the id. RETURN_GENERATED_KEYS would return all columns; the name requests only the id. */
    static long insert(Connection connection, String title) throws SQLException {
        String sql = "INSERT INTO insta5.photos (title) VALUES (?)";
        try (PreparedStatement insert = connection.prepareStatement(sql, new String[] {"id"})) {
            insert.setString(1, title);
            insert.executeUpdate();
            ResultSet keys = insert.getGeneratedKeys();
            keys.next();
            return keys.getLong(1);
        }
    }

    /** The ids come from blocks, so they are known before the batch is sent. */
    static void insertMany(Connection connection, Ids ids, int count) throws SQLException {
        String sql = "INSERT INTO insta5.photos (id, title) VALUES (?, ?)";
        try (PreparedStatement insert = connection.prepareStatement(sql)) {
            for (int n = 0; n < count; n++) {
                insert.setLong(1, ids.next());
                insert.setString(2, "photo " + n);
                insert.addBatch();
            }
            insert.executeBatch();
        }
    }

    static void show(Connection connection, long first) throws SQLException {
        OffsetDateTime madeAt;
        try (PreparedStatement select = connection.prepareStatement("SELECT id_time(?), id_shard(?)")) {
            select.setLong(1, first);
            select.setLong(2, first);
            ResultSet row = select.executeQuery();
            row.next();
            madeAt = row.getObject(1, OffsetDateTime.class);
            boolean isSame = madeAt.toInstant().toEpochMilli() == timeOf(first) && row.getInt(2) == shardOf(first);
            boolean isNow = Duration.between(madeAt, OffsetDateTime.now()).abs().toMinutes() < 1;
            System.out.println("shard " + shardOf(first) + ": made now: " + isNow + ", SQL says the same: " + isSame);
        }
        String sql = "SELECT title FROM insta5.photos WHERE id_between(id, ?, ?) ORDER BY id";
        try (PreparedStatement select = connection.prepareStatement(sql)) {
            select.setObject(1, madeAt);
            select.setObject(2, madeAt.plusMinutes(1));
            ResultSet rows = select.executeQuery();
            rows.next();
            String from = rows.getString(1);
            String to = from;
            while (rows.next()) {
                to = rows.getString(1);
            }
            System.out.println("of a minute: " + from + " to " + to);
        }
    }

    /** The ids of one instance are in order. With two instances a later id may be smaller. */
    static void showOrder(DataSource source) throws SQLException {
        Ids here = new Ids(source, 5);
        Ids there = new Ids(source, 5);
        long a = here.next();
        long b = there.next();
        long c = here.next();
        System.out.println("one block: " + (a < c) + ", two blocks: " + (b < c));
    }

    public static void main(String[] args) throws SQLException {
        PGSimpleDataSource source = new PGSimpleDataSource(); // a pool, in an application
        source.setUrl(args[0]);
        try (Connection connection = source.getConnection()) {
            makeTable(connection);
            long first = insert(connection, "first");
            insertMany(connection, new Ids(source, 5), 1000);
            show(connection, first);
            showOrder(source);
        }
    }
}
