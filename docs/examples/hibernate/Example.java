// Inserts photos and albums into shard 5 and reads them back, with Hibernate 3.6.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Date;
import java.util.List;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

class Example {
    /** What a migration would do. Hibernate cannot create the shard, nor a default for an identity. */
    static void migrate(String url) throws SQLException {
        try (Connection connection = DriverManager.getConnection(url);
                Statement statement = connection.createStatement()) {
            statement.execute("CREATE EXTENSION IF NOT EXISTS instagram_id");
            statement.execute("SELECT create_shard(5, if_not_exists => true)");
            statement.execute("CREATE TABLE IF NOT EXISTS insta5.albums"
                    + " (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text NOT NULL)");
        }
    }

    static SessionFactory connect(String url) {
        return new Configuration()
                .addAnnotatedClass(Photo.class)
                .addAnnotatedClass(Album.class)
                .setProperty("hibernate.connection.driver_class", "org.postgresql.Driver")
                .setProperty("hibernate.connection.url", url)
                .setProperty("hibernate.dialect", "org.hibernate.dialect.PostgreSQLDialect")
                .setProperty("hibernate.hbm2ddl.auto", "update")
                .setProperty("hibernate.jdbc.batch_size", "50")
                .buildSessionFactory();
    }

    static Photo insertPhotos(Session session) {
        session.beginTransaction();
        Photo first = new Photo("first");
        session.save(first); // from here on it has an id; the commit inserts it
        for (int n = 0; n < 1000; n++) {
            session.save(new Photo("photo " + n));
        }
        session.getTransaction().commit();
        return first;
    }

    static Album insertAlbum(Session session) {
        session.beginTransaction();
        Album album = new Album("album");
        session.save(album); // inserts it, and reads the id that the default has generated
        session.getTransaction().commit();
        return album;
    }

    static void show(Session session, long first) {
        Object[] row = (Object[]) session.createSQLQuery("SELECT id_time(:id), id_shard(:id)")
                .setLong("id", first).uniqueResult();
        boolean isNow = Math.abs(new Date().getTime() - ((Date) row[0]).getTime()) < 60_000;
        List<?> since = session.createQuery("FROM Photo WHERE id >= :first ORDER BY id").setLong("first", first).list();
        String last = ((Photo) since.get(since.size() - 1)).title;
        System.out.println("shard " + row[1] + ": made now: " + isNow + ", "
                + ((Photo) since.get(0)).title + " to " + last);
    }

    public static void main(String[] args) throws SQLException {
        migrate(args[0]);
        SessionFactory factory = connect(args[0]);
        Session session = factory.openSession();
        show(session, insertPhotos(session).id);
        long album = insertAlbum(session).id;
        Object shard = session.createSQLQuery("SELECT id_shard(:id)").setLong("id", album).uniqueResult();
        System.out.println("album: shard " + shard);
        session.close();
        factory.close();
    }
}
