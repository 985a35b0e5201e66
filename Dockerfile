# The official image of PostgreSQL, with instagram_id in it:
#
#   docker build -t postgres-instagram-id .
#   docker build -t postgres-instagram-id --build-arg PG_MAJOR=15 .
ARG PG_MAJOR=18

FROM rust:1.95-bookworm AS rust

FROM postgres:${PG_MAJOR}-bookworm AS build
COPY --from=rust /usr/local/rustup /usr/local/rustup
COPY --from=rust /usr/local/cargo /usr/local/cargo
ENV RUSTUP_HOME=/usr/local/rustup CARGO_HOME=/usr/local/cargo PATH=/usr/local/cargo/bin:$PATH
# The image names its major in PG_MAJOR.
RUN apt-get update && apt-get install -y --no-install-recommends make "postgresql-server-dev-$PG_MAJOR"
WORKDIR /build
# Compilers and cargo-pgrx, in a layer that a change of the source does not touch.
COPY Cargo.toml ./
COPY scripts scripts
RUN scripts/setup.sh build && scripts/setup.sh command
COPY . .
RUN make install DESTDIR=/installed PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config

FROM postgres:${PG_MAJOR}-bookworm
COPY --from=build /installed /
