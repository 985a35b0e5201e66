// Inserts photos into shard 5 and reads them back.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v4" // v5 has the same functions
)

type Photo struct {
	ID    int64  `json:"id,string"` // a number in JSON would be rounded by browsers
	Title string `json:"title"`
}

func makeTable(ctx context.Context, conn *pgx.Conn) error {
	for _, statement := range []string{
		"CREATE EXTENSION IF NOT EXISTS instagram_id",
		"SELECT create_shard(5, if_not_exists => true)",
		"CREATE TABLE IF NOT EXISTS insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text NOT NULL)",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func insert(ctx context.Context, conn *pgx.Conn, photo *Photo) error {
	row := conn.QueryRow(ctx, "INSERT INTO insta5.photos (title) VALUES ($1) RETURNING id", photo.Title)
	return row.Scan(&photo.ID)
}

// insertBatch sends all inserts in one round trip.
func insertBatch(ctx context.Context, conn *pgx.Conn, photos []Photo) error {
	batch := &pgx.Batch{}
	for _, photo := range photos {
		batch.Queue("INSERT INTO insta5.photos (title) VALUES ($1) RETURNING id", photo.Title)
	}
	results := conn.SendBatch(ctx, batch)
	for n := range photos {
		if err := results.QueryRow().Scan(&photos[n].ID); err != nil {
			results.Close()
			return err
		}
	}
	return results.Close()
}

// copyIn fetches the ids first, because COPY does not return those that a default generates.
func copyIn(ctx context.Context, conn *pgx.Conn, photos []Photo) error {
	rows, err := conn.Query(ctx, "SELECT next_ids(5, $1)", len(photos))
	if err != nil {
		return err
	}
	for n := 0; rows.Next(); n++ {
		if err := rows.Scan(&photos[n].ID); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"insta5", "photos"}, []string{"id", "title"},
		pgx.CopyFromSlice(len(photos), func(n int) ([]interface{}, error) {
			return []interface{}{photos[n].ID, photos[n].Title}, nil
		}))
	return err
}

func show(ctx context.Context, conn *pgx.Conn, first int64) error {
	var madeAt time.Time
	var shard int
	if err := conn.QueryRow(ctx, "SELECT id_time($1), id_shard($1)", first).Scan(&madeAt, &shard); err != nil {
		return err
	}
	var titles []string
	since := "SELECT array_agg(title ORDER BY id) FROM insta5.photos WHERE id_between(id, $1, $2)"
	if err := conn.QueryRow(ctx, since, madeAt, madeAt.Add(time.Minute)).Scan(&titles); err != nil {
		return err
	}
	isNow := time.Since(madeAt) < time.Minute
	fmt.Printf("shard %d: made now: %t, %s to %s\n", shard, isNow, titles[0], titles[len(titles)-1])
	return nil
}

func run(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, "") // PGHOST, PGPORT, PGUSER, PGDATABASE
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := makeTable(ctx, conn); err != nil {
		return err
	}
	first := Photo{Title: "first"}
	if err := insert(ctx, conn, &first); err != nil {
		return err
	}
	photos := make([]Photo, 1000)
	for n := range photos {
		photos[n].Title = fmt.Sprintf("photo %d", n)
	}
	if err := insertBatch(ctx, conn, photos[:100]); err != nil {
		return err
	}
	if err := copyIn(ctx, conn, photos[100:]); err != nil {
		return err
	}
	if err := show(ctx, conn, first.ID); err != nil {
		return err
	}
	text, err := json.Marshal(Photo{1671372309237077023, "hello"})
	if err != nil {
		return err
	}
	var read Photo
	err = json.Unmarshal(text, &read)
	fmt.Printf("%s, and back: %t\n", text, read.ID == 1671372309237077023)
	return err
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
