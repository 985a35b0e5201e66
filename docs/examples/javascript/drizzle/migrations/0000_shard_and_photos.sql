-- These two statements replace CREATE SCHEMA and CREATE SEQUENCE.
CREATE EXTENSION IF NOT EXISTS instagram_id;
--> statement-breakpoint
SELECT create_shard(5, if_not_exists => true);
--> statement-breakpoint
CREATE TABLE "insta5"."photos" (
	"id" bigint PRIMARY KEY DEFAULT insta5.next_id() NOT NULL,
	"title" text NOT NULL
);
