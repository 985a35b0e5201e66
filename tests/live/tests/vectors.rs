//! The test vectors for decoders, docs/vectors.json, in SQL. tests/clients compares the decoders of
//! the examples with them.

use instagram_id_live::*;
use postgres::Client;
use std::fs;

/// The functions in SQL return what the test vectors state, and raise errors for the invalid ones.
#[test]
fn sql_matches_the_vectors() {
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    let mut client = server.connect();
    setup(&mut client);
    check(&mut client);
}

/// Checks the functions in the search_path of a session whose time zone is UTC.
pub fn check(client: &mut Client) {
    let file = fs::read_to_string(of_project("docs/vectors.json")).unwrap();
    run(client, "CREATE TABLE vectors (file jsonb)");
    client.execute("INSERT INTO vectors SELECT $1::text::jsonb", &[&file]).unwrap();
    let computed =
        "SELECT v, jsonb_build_object('id', id::text, 'epoch', v->'epoch', 'unix_ms', v->'unix_ms',
            'time', to_char(id_time(id, epoch) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'),
            'shard', id_shard(id), 'seq', id_seq(id), 'floor', id_floor(id_time(id, epoch), epoch)::text,
            'code', id_to_shortcode(id)) AS by_sql,
            extract(epoch FROM id_time(id, epoch)) * 1000 = (v->>'unix_ms')::numeric AS unix_ms_is_right
        FROM (SELECT v, (v->>'id')::bigint AS id,
                timestamptz 'epoch' + (v->>'epoch')::bigint * interval '1 millisecond' AS epoch
            FROM vectors, jsonb_array_elements(file->'ids') AS v) AS vector";
    let wrong = format!(
        "SELECT concat(v, ' ', by_sql) FROM ({computed}) AS c WHERE v <> by_sql OR NOT unix_ms_is_right"
    );
    assert_eq!(texts(client, &wrong), Vec::<String>::new());
    let count = |of: &str| format!("SELECT jsonb_array_length(file->'{of}')::bigint FROM vectors");
    assert_eq!(one::<i64>(client, &count("ids")), 30);
    let codes = "SELECT c->>'code' FROM vectors, jsonb_array_elements(
            (file->'other_codes') || jsonb_path_query_array(file, '$.ids[*]')) AS c
        WHERE shortcode_to_id(c->>'code') <> (c->>'id')::bigint";
    assert_eq!(texts(client, codes), Vec::<String>::new());

    let texts_of = |client: &mut _, list: &str| {
        texts(
            client,
            &format!("SELECT v FROM vectors, jsonb_array_elements_text(file->'{list}') AS v"),
        )
    };
    let mut rejected = 0;
    for (list, call, states) in [
        ("invalid_codes", "shortcode_to_id($$V$$)", ["22P02"].as_slice()),
        ("invalid_ids", "id_time($$V$$)", &["22P02", "22003"]),
    ] {
        for text in texts_of(client, list) {
            let (state, ..) = error_of(client, &format!("SELECT {}", call.replace('V', &text)));
            assert!(states.contains(&state.as_str()), "{list}: {text:?}: {state}");
            rejected += 1;
        }
    }
    let times =
        "SELECT format('SELECT id_floor(%L, timestamptz ''epoch'' + %s * interval ''1 millisecond'')',
            v->>'time', v->>'epoch') FROM vectors, jsonb_array_elements(file->'invalid_times') AS v";
    for call in texts(client, times) {
        assert_eq!(error_of(client, &call).0, "22008", "{call}");
        rejected += 1;
    }
    assert_eq!(rejected, 12 + 7 + 4);
}
