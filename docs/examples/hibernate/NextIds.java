import java.io.Serializable;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayDeque;
import org.hibernate.engine.SessionImplementor;
import org.hibernate.engine.TransactionHelper;
import org.hibernate.id.IdentifierGenerator;

/** Ids of shard 5, fetched in blocks, so that Hibernate can insert in batches. */
public class NextIds extends TransactionHelper implements IdentifierGenerator {
    private final ArrayDeque<Long> block = new ArrayDeque<>();

    @Override
    public synchronized Serializable generate(SessionImplementor session, Object entity) {
        if (block.isEmpty()) {
            // Not in the session's transaction: after a crash before its commit the block could be issued again.
            doWorkInNewTransaction(session);
        }
        return block.remove();
    }

    @Override
    protected Serializable doWorkInCurrentTransaction(Connection connection, String sql) throws SQLException {
        ResultSet ids = connection.createStatement().executeQuery("SELECT next_ids(5, 50)");
        while (ids.next()) {
            block.add(ids.getLong(1));
        }
        return null;
    }
}
