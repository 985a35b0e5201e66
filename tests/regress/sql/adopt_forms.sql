-- The forms of the original that adopt_shard() accepts generate the ids that it expects, and can be restored. Others are refused, and
-- the error says what is different and what to do.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = warning;
CREATE SCHEMA insta550 CREATE SEQUENCE table_id_seq;

-- Adopts a function with this body, and restores it. Its ids have the shard, the time and the sequence field that a shard's have.
CREATE FUNCTION adopts(language text, body text) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE
    before bigint;
    old bigint;
    new bigint;
    restored text;
BEGIN
    EXECUTE format('CREATE FUNCTION insta550.photo_id() RETURNS bigint LANGUAGE %s AS %L', language, body);
    CREATE TABLE insta550.photos (id bigint PRIMARY KEY DEFAULT insta550.photo_id());
    EXECUTE 'SELECT next' || 'val($1)' INTO before USING 'insta550.table_id_seq'::regclass; -- or this would be a user of the sequence
    INSERT INTO insta550.photos DEFAULT VALUES RETURNING id INTO old;
    ASSERT id_shard(old) = 550 AND id_seq(old) = (before + 1) % 1024 AND abs(extract(epoch FROM id_time(old) - clock_timestamp())) < 1, old;
    ASSERT (SELECT shard = 550 AND sequence = 'insta550.table_id_seq'::regclass AND epoch = '2011-08-24 21:07:01.721+00' AND newest_id = old
        FROM adopt_shard(550));
    INSERT INTO insta550.photos DEFAULT VALUES RETURNING id INTO new;
    ASSERT new > old AND id_shard(new) = 550, new;
    PERFORM unadopt_shard(550);
    SELECT prosrc || lanname INTO restored FROM pg_proc AS p JOIN pg_language AS l ON l.oid = prolang
    WHERE proname = 'photo_id' AND pronamespace = 'insta550'::regnamespace;
    ASSERT restored = body || language, restored;
    INSERT INTO insta550.photos DEFAULT VALUES RETURNING id INTO old;
    ASSERT old > new AND id_shard(old) = 550, old;
    DROP TABLE insta550.photos;
    DROP FUNCTION insta550.photo_id();
    RETURN 'adopted';
END $f$;
\set now '(extract(epoch FROM clock_timestamp()) * 1000)'
\set counter 'nextval(''insta550.table_id_seq'') % 1024'
-- The error of the adoption of such a function.
CREATE FUNCTION refuses(language text, body text, result text DEFAULT 'bigint', arguments text DEFAULT '') RETURNS TABLE (state text, message text, detail text, hint text)
LANGUAGE plpgsql AS $f$
BEGIN
    EXECUTE format('CREATE FUNCTION insta550.photo_id(%s) RETURNS %s LANGUAGE %s AS %L', arguments, result, language, body);
    RETURN QUERY SELECT r.* FROM pg_proc AS p, raises(format('SELECT adopt_shard(550, function => %L)', p.oid::regprocedure)) AS r
        WHERE proname = 'photo_id' AND pronamespace = 'insta550'::regnamespace;
    EXECUTE format('DROP FUNCTION insta550.photo_id(%s)', arguments);
END $f$;
\set ECHO all

SELECT adopts('plpgsql', format('BEGIN RETURN (floor%s::bigint - 1314220021721) * 8388608 + 550*1024 + %s; END', :'now', :'counter'));
SELECT adopts('plpgsql', format('BEGIN RETURN (floor%s - 1314220021721) * 8388608 + 550*1024 + %s; END', :'now', :'counter'));
SELECT adopts('plpgsql', format('DECLARE millis bigint := %s; id bigint; BEGIN id := (millis - 1314220021721) * 8388608; id := id + (550 << 10); RETURN id + %s; END', :'now', :'counter'));
SELECT adopts('sql', format('SELECT (floor%s::bigint - 1314220021721) << 23 | (550 << 10) | (%s)', :'now', :'counter'));
SELECT adopts('sql', format('-- our ids%sSELECT ((%s::bigint - 1314220021721) * 8388608 + 550*1024 + %s)::bigint AS id;', E'\n', :'now', :'counter'));

-- Refused: the numbers would be others, or it is not plain that they are the same.
SELECT * FROM refuses('plpgsql', format('BEGIN RETURN (%s - 1314220021721) * 8388608 + 550*1024 + %s; END', :'now', :'counter'));
SELECT detail FROM refuses('sql', format('SELECT (floor%s::bigint - 1314220021721) << 23 | (550 << 10) | (%s)', :'now', :'counter'), 'SETOF bigint');
SELECT detail FROM refuses('internal', 'nextval_oid', arguments => 'regclass');
CREATE FUNCTION insta550.photo_id() RETURNS bigint RETURN (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23 | (550 << 10) | (nextval('insta550.table_id_seq') % 1024);
SELECT * FROM raises('SELECT adopt_shard(550)');
DROP FUNCTION insta550.photo_id();
-- A sequence for each table as the argument.
SELECT * FROM refuses('plpgsql', format('BEGIN RETURN (floor%s::bigint - 1577836800000) << 23 | (550 << 10) | (nextval(seq) %% 1024); END', :'now'), arguments => 'seq regclass');
SELECT hint FROM refuses('sql', format('SELECT (floor%s::bigint - 1314220021721) << 23 | (550 << 10) | (nextval($1) %% 1024)', :'now'), arguments => 'seq regclass');
SELECT detail, hint FROM refuses('plpgsql', 'BEGIN RETURN nextval(seq) + shard; END', arguments => 'seq regclass, shard int');
-- The call in the hint generates such ids.
SELECT id_shard(next_id(550, 'insta550.table_id_seq', '2020-01-01 00:00:00+00')), id_time(next_id(550, 'insta550.table_id_seq', '2020-01-01 00:00:00+00'), '2020-01-01') - clock_timestamp() < '1 s' AS now;

\set VERBOSITY terse
DROP SCHEMA insta550 CASCADE;
DROP FUNCTION adopts, refuses;
