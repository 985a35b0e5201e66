#!/usr/bin/env bash
# images.sh build         builds the images for one PostgreSQL major (PG_MAJOR), for this machine's
# architecture images.sh join MAJOR... makes one image of the pushed ones of several architectures
# (ARCHITECTURES), for each major
#
#   IMAGES=ghcr.io/someone/instagram_id   the name: IMAGES:18-1.0.0 is PostgreSQL with the extension, and from 18 on
#                                         IMAGES-extension:1.0.0-18 the extension alone, for CloudNativePG
#   DEBIAN=trixie                         on another release of Debian than bookworm
#   SOURCE=https://...                    the address of the sources, a label of the images
#   PUSH=1 ARCHITECTURE=arm64             pushes them, with the architecture at the end of the tag
#   DOCKER="echo docker"                  prints the commands
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
read -ra docker <<<"${DOCKER:-docker}"
images=$(tr '[:upper:]' '[:lower:]' <<<"${IMAGES:-instagram_id}") # as registries want it
version=$(version_of_extension)

# tags_of MAJOR: the targets of the Dockerfile for this major, and the tags of their images.
tags_of() {
    echo "server $images:$1-$version"
    if [ "$1" -ge 18 ]; then echo "extension $images-extension:$version-$1"; fi
}

build() {
    local major=${PG_MAJOR:-18} target tag rust
    rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(manifest_of "$major")")
    tags_of "$major" | while read -r target tag; do
        if [ -n "${PUSH:-}" ]; then tag+=-${ARCHITECTURE:?PUSH needs the ARCHITECTURE}; fi
        "${docker[@]}" build --target "$target" --tag "$tag" --build-arg "PG_MAJOR=$major" --build-arg "RUST=$rust" \
            --build-arg "DEBIAN=${DEBIAN:-bookworm}" --build-arg "VERSION=$version" --build-arg "SOURCE=${SOURCE:-}" . </dev/null
        if [ -n "${PUSH:-}" ]; then "${docker[@]}" push "$tag" </dev/null; fi
    done
}

join() {
    local major tag architecture parts
    for major in "$@"; do
        tags_of "$major" | while read -r _ tag; do
            parts=()
            for architecture in ${ARCHITECTURES:-amd64 arm64}; do parts+=("$tag-$architecture"); done
            "${docker[@]}" buildx imagetools create --tag "$tag" "${parts[@]}" </dev/null
        done
    done
}

case ${1:-} in
    build) build ;;
    join) join "${@:2}" ;;
    *) fail "usage: images.sh build|join" ;;
esac
