//! COPY into a foreign table whose default is `next_id()`, row by row and in batches.

use instagram_id_live::*;

#[test]
fn copy_into_a_foreign_table() {
    let (server, mut client) = with_shard();
    let host = server.path().display();
    run(
        &mut client,
        &format!(
            "CREATE EXTENSION postgres_fdw;
             CREATE SERVER itself FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{host}', dbname 'postgres');
             CREATE USER MAPPING FOR CURRENT_USER SERVER itself;
             CREATE TABLE photos (id bigint PRIMARY KEY, n int);
             CREATE FOREIGN TABLE photos_there (id bigint DEFAULT insta5.next_id(), n int)
                 SERVER itself OPTIONS (table_name 'photos')"
        ),
    );
    run(&mut client, "COPY photos_there (n) FROM PROGRAM 'seq 500'");
    run(&mut client, "ALTER FOREIGN TABLE photos_there OPTIONS (ADD batch_size '100')");
    run(&mut client, "COPY photos_there (n) FROM PROGRAM 'seq 501 1000'");
    let ids = column(&mut client, "SELECT id FROM photos ORDER BY n");
    assert_eq!(ids.len(), 1000);
    check_unique_and_increasing(&[ids]);
}
