import javax.persistence.Entity;
import javax.persistence.GeneratedValue;
import javax.persistence.GenerationType;
import javax.persistence.Id;
import javax.persistence.Table;

/** The column's default generates its ids. Hibernate must not create the table: it would use bigserial. */
@Entity
@Table(name = "albums", schema = "insta5")
class Album {
    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    Long id;

    String title;

    Album() {}

    Album(String title) {
        this.title = title;
    }
}
