# Images with instagram_id. The official image of PostgreSQL, with the extension and its command in it:
#
#   docker build -t postgres-instagram-id .
#   docker build -t postgres-instagram-id --build-arg PG_MAJOR=15 .
#
# Only the extension, for an extension volume of CloudNativePG (PostgreSQL 18 and later):
#
#   docker build -t instagram-id --target extension .
#
# Both are built for the machine's architecture. With --platform linux/amd64,linux/arm64, docker buildx builds one image for
# both architectures; it emulates the other one, which takes long. The release builds each on a machine of its own.
ARG PG_MAJOR=18
# The release of Debian: the official images have bookworm and trixie.
ARG DEBIAN=bookworm
# PostgreSQL 19 needs 1.96 or later.
ARG RUST=1.95

FROM rust:${RUST}-${DEBIAN} AS rust

FROM postgres:${PG_MAJOR}-${DEBIAN} AS build
COPY --from=rust /usr/local/rustup /usr/local/rustup
COPY --from=rust /usr/local/cargo /usr/local/cargo
ENV RUSTUP_HOME=/usr/local/rustup CARGO_HOME=/usr/local/cargo PATH=/usr/local/cargo/bin:$PATH
# The image names its major in PG_MAJOR. The headers must have the version of its server, which the repository determines.
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install -y --no-install-recommends make "postgresql-server-dev-$PG_MAJOR" && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /build
# Compilers, in a layer that a change of the source does not touch.
COPY Cargo.toml ./
COPY pg19/Cargo.toml pg19/
COPY scripts scripts
RUN scripts/setup.sh build && scripts/setup.sh command
COPY . .
RUN make install DESTDIR=/installed PG_CONFIG="/usr/lib/postgresql/$PG_MAJOR/bin/pg_config" \
    commanddir=/usr/local/bin man1dir=/usr/local/share/man/man1

FROM build AS tree
RUN scripts/image_tree.sh "/usr/lib/postgresql/$PG_MAJOR/bin/pg_config" /tree

FROM scratch AS extension
ARG VERSION=1.0.0
ARG SOURCE=
LABEL org.opencontainers.image.title="instagram_id" \
    org.opencontainers.image.description="The PostgreSQL extension instagram_id, for an extension volume of CloudNativePG" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.licenses="PostgreSQL" \
    org.opencontainers.image.source="$SOURCE"
COPY --from=tree /tree /

FROM postgres:${PG_MAJOR}-${DEBIAN} AS server
ARG VERSION=1.0.0
ARG SOURCE=
LABEL org.opencontainers.image.title="PostgreSQL with instagram_id" \
    org.opencontainers.image.description="The official image of PostgreSQL, with the extension instagram_id" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.licenses="PostgreSQL" \
    org.opencontainers.image.source="$SOURCE"
COPY --from=build /installed /
