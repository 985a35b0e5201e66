#!/usr/bin/env bash
# Makes the PGXN archive of the last commit, not of the working tree, in target/dist.
#
#   REPOSITORY=https://github.com/someone/instagram_id dist.sh   with the addresses of this repository in META.json
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
version=$(git show HEAD:Cargo.toml | sed -n 's/^version = "\(.*\)"/\1/p' | head -n 1)
mkdir -p target/dist
tree=HEAD
if [ -n "${REPOSITORY:-}" ]; then
    folder=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
    trap 'rm -rf "$folder"' EXIT
    # The tree of the commit with another META.json, from an index of its own.
    git show HEAD:META.json | scripts/with_resources.py "$REPOSITORY" >"$folder/META.json"
    blob=$(git hash-object -w "$folder/META.json")
    export GIT_INDEX_FILE=$folder/index
    git read-tree HEAD
    git update-index --cacheinfo "100644,$blob,META.json"
    tree=$(git write-tree)
fi
file=target/dist/instagram_id-$version.zip
git archive --format=zip --prefix="instagram_id-$version/" --output="$file" "$tree"
say "Made $file"
