import javax.persistence.Column;
import javax.persistence.Entity;
import javax.persistence.GeneratedValue;
import javax.persistence.Id;
import javax.persistence.Table;
import org.hibernate.annotations.GenericGenerator;

/** Its ids come in blocks, and its rows are inserted in batches. Hibernate can create the table. */
@Entity
@Table(name = "photos", schema = "insta5")
class Photo {
    @Id
    @GeneratedValue(generator = "next_ids")
    @GenericGenerator(name = "next_ids", strategy = "NextIds")
    @Column(columnDefinition = "bigint default insta5.next_id()")
    Long id;

    String title;

    Photo() {}

    Photo(String title) {
        this.title = title;
    }
}
