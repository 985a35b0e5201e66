#!/usr/bin/env bash
# vendored.sh [PG_CONFIG]: builds a copy of the committed sources as docs/inside/packaging.md describes it for distributions: with
# vendored crates, an empty cargo home, and in a network namespace that has no interface but an unused loopback. By default
# for Debian's PostgreSQL.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
scripts/setup.sh server
scripts/setup.sh command
find_servers
pg_config=${1:-${pg_config_of[$(debian_major)]}}
folder=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
git archive HEAD | tar -x -C "$folder"
cd "$folder"
mkdir .cargo
cargo vendor --locked vendor >.cargo/config.toml 2>vendor.log || fail "$(cat vendor.log)"
say "Vendored $(find vendor -mindepth 1 -maxdepth 1 | wc -l) crates"

# Cargo finds the Rust toolchain by RUSTUP_HOME, if it is rustup's.
RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
export RUSTUP_HOME CARGO_HOME=$folder/cargo-home CARGO_NET_OFFLINE=true INSTAGRAM_ID_CACHE=$folder/target/cache
unset CARGO_TARGET_DIR
# It is built, and not measured.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
cat >build.sh <<'BUILD'
set -euo pipefail
[ "$(sed -n 's/^ *\(.*\):.*/\1/p' /proc/net/dev)" = lo ] || { echo "error: there is a network" >&2; exit 1; }
make --no-print-directory PG_CONFIG="$1"
make --no-print-directory -s install PG_CONFIG="$1" DESTDIR="$PWD/installed" commanddir=/usr/bin man1dir=/usr/share/man/man1
BUILD
unshare --user --map-current-user --net bash build.sh "$pg_config"
for file in "$("$pg_config" --pkglibdir)/instagram_id.so" "$("$pg_config" --sharedir)/extension/instagram_id.control" \
    "$("$pg_config" --sharedir)/extension/instagram_id--$(version_of_extension).sql" /usr/share/man/man1/instagram_id_shards.1; do
    [ -f "installed$file" ] || fail "$file was not installed"
done
[ "$(installed/usr/bin/instagram_id_shards --version)" = "instagram_id_shards $(version_of_extension)" ] ||
    fail "the command does not run"
[ ! -d "$CARGO_HOME/registry/src" ] || fail "crates were fetched"
say "The vendored sources build without network"
