#!/usr/bin/env bash
# Checks format and lints for each PostgreSQL major that is set up, because the code differs
# slightly between them. Also checks that no file has conflict markers, and that scripts can be
# parsed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
if git grep -nE '^(<{7}|>{7}) '; then fail "these lines are left from a merge"; fi
for script in .ci/run scripts/*.sh; do bash -n "$script"; done
cargo fmt --all --check
cargo fmt --manifest-path fuzz/Cargo.toml --check
scripts/setup.sh lint
cargo clippy --manifest-path fuzz/Cargo.toml --all-targets -- -D warnings
scripts/setup.sh servers
for pg_config in $(scripts/servers.sh); do
    major=$(major_of "$pg_config")
    say "Clippy for PostgreSQL $major"
    build_for "$pg_config"
    cargo clippy --workspace --exclude instagram_id_pg19 --all-targets --no-default-features --features "instagram_id/pg$major,instagram_id/pg_test" \
        -- -D warnings
done
