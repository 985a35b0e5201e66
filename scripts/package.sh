#!/usr/bin/env bash
# Makes Debian packages of the last commit for this Debian release, in target/dist, from debian/ and
# vendored crates: the extension for each PostgreSQL of the release, or for
# PG_SUPPORTED_VERSIONS='15 18' with the headers of apt.postgresql.org, and the command
# instagram_id_shards. target/dist/packages lists them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
scripts/setup.sh package
work=$CACHE/package
rm -rf "$work/instagram-id" "$work"/*.deb
mkdir -p "$work/instagram-id" target/dist
git archive HEAD | tar -x -C "$work/instagram-id"
export CARGO_TARGET_DIR=$work/target
# The Rust toolchain is that in PATH: Debian's own package, or another one, which is not among the
# Build-Depends then.
if [ "$(command -v cargo)" != /usr/bin/cargo ]; then export DEB_BUILD_PROFILES=pkg.instagram-id.rustup; fi
if [ -d "${RUSTUP_HOME:=$HOME/.rustup}" ]; then export RUSTUP_HOME; fi
cd "$work/instagram-id"
mkdir .cargo
with_progress "Vendoring the crates" \
    sh -c 'cargo vendor --locked --versioned-dirs vendor >.cargo/config.toml'
# The packages for a later release are newer, so that an upgrade of Debian replaces them.
sed -i "1s/)/~$(. /etc/os-release && echo "$ID${VERSION_ID:-}"))/" debian/changelog
pg_buildext updatecontrol
dpkg-checkbuilddeps 2>/dev/null || with_progress "Installing the packages of Build-Depends" \
    as_root apt-get build-dep -y --no-install-recommends -P "${DEB_BUILD_PROFILES:-}" "$PWD"
DEB_BUILD_OPTIONS="noautodbgsym ${DEB_BUILD_OPTIONS:-}" with_progress "Building the packages" dpkg-buildpackage -b -us -uc
cd "$ROOT"
for package in "$work"/*.deb; do
    cp "$package" target/dist/
    say "Made target/dist/${package##*/}"
done
(cd "$work" && ls -- *.deb) >target/dist/packages
