# make help           print this list
# make demo           see the extension at work, on a server of its own
# make check          run the quick check while you work: half a minute; make check T=errors runs only tests of this name;
#                     ACCEPT=1 make check takes over the output of the regression and isolation tests
# make test           run the tests that need a PostgreSQL and nothing else, on Debian's: seven minutes
# make test-clients   run the client programs of the documentation, in Python, JavaScript, PHP, Java, Go and Ruby;
#                     test-packages, test-majors and test-citus run the tests that need other packages, a newer major, or
#                     a PostgreSQL with Citus
# make test-all       run every test on all supported PostgreSQL majors
# make torture        run longer tests, also with assertions and under valgrind: hours
# make goals          measure how near the extension comes to its goals: some minutes
# make bench          compare it with other ways to generate ids, and write the figures into docs/inside/benchmarks.md: twenty
#                     minutes; RIVALS=/path/to/checkouts names the commits of other extensions that the server has
# make fuzz           fuzz the parts that do not depend on PostgreSQL, a minute each
# make                build for the PostgreSQL that PG_CONFIG names
# make install        install the build (needs write access to PostgreSQL's folders: sudo make install)
# make uninstall      remove what make install has installed
# make package        make the Debian packages of the extension and of its command for this release of Debian, in
#                     target/dist, from the last commit
# make check-package  make them for PostgreSQL 15, and test them on a bare Debian 12 in a folder (needs root, or sudo);
#                     make check-package MAJORS='15 17' also those for 17, on a bare Debian 13
# make image-tree     put the files of an image for CloudNativePG into target/image; make check-image-tree tests them on
#                     a temporary server. Both need PostgreSQL 18 or later
# make images         build the images with Docker, for PG_MAJOR=18; the release also pushes them and runs join-images
# make check-metadata check META.json, the workflows and the Dockerfile
# make check-monitoring   test the files of monitoring/ with Prometheus and sql_exporter: two minutes
# make dist           make the PGXN archive of the last commit, in target/dist
# make clean          remove what was built
# make installcheck   run the regression and isolation tests on a running server, by PGHOST, PGPORT, PGUSER

PG_CONFIG = pg_config
pkglibdir := $(shell $(PG_CONFIG) --pkglibdir 2>/dev/null)
bindir := $(shell $(PG_CONFIG) --bindir 2>/dev/null)
extensiondir := $(shell $(PG_CONFIG) --sharedir 2>/dev/null)/extension
# dev for tests.
PROFILE = release
# The libraries for several PostgreSQL installations stand side by side here.
package = target/package/$(PROFILE)
library = $(package)$(pkglibdir)/instagram_id.so
# The command instagram_id_shards, which is the same for all majors, and where it is installed: by default among
# PostgreSQL's own programs.
command = target/package/command/instagram_id_shards
commanddir := $(bindir)
man1dir := $(shell $(PG_CONFIG) --mandir 2>/dev/null)/man1

# Delete the target of a failed command, so that make does not use it as a finished build.
.DELETE_ON_ERROR:

all: $(library) $(command)

$(command): Cargo.toml Cargo.lock core/Cargo.toml cli/Cargo.toml $(shell find core/src cli/src -type f)
	scripts/build_command.sh '$(dir $@)'

$(library): Cargo.toml Cargo.lock pg19/Cargo.toml $(shell find src core/src core/Cargo.toml -type f)
	scripts/build.sh '$(PG_CONFIG)' '$@' '$(PROFILE)'

# These targets need the paths of a PostgreSQL.
ifeq ($(pkglibdir),)
ifneq ($(filter install install-extension install-command uninstall installcheck image-tree check-image-tree,$(MAKECMDGOALS)),)
$(error there is no '$(PG_CONFIG)'; name the PostgreSQL with PG_CONFIG=/path/to/pg_config)
endif
endif

install: install-extension install-command
ifeq ($(DESTDIR)$(findstring s,$(firstword -$(MAKEFLAGS))),)
	@echo 'The command instagram_id_shards is in $(commanddir)'
	@case ":$$PATH:" in *':$(commanddir):'*) ;; \
	    *) echo 'This is not in PATH. commanddir=/usr/local/bin installs the command there instead.' ;; esac
endif

# The script of the version 1.0.0-portable, with which the library takes the place of the portable edition.
take_over = $(package)/instagram_id--1.0.0-portable.sql

$(take_over): portable/take_over.sql sql/instagram_id--1.0.0.sql
	mkdir -p $(package)
	sed '1,/^END $$$$;/d; s/^CREATE FUNCTION/CREATE OR REPLACE FUNCTION/' sql/instagram_id--1.0.0.sql >$@.part
	sed '/^-- The functions of the library/r $@.part' portable/take_over.sql >$@
	rm $@.part

install-extension: $(library) $(take_over)
	install -d '$(DESTDIR)$(pkglibdir)' '$(DESTDIR)$(extensiondir)'
	install -m 755 '$(library)' '$(DESTDIR)$(pkglibdir)/instagram_id.so'
	install -m 644 instagram_id.control sql/instagram_id--*.sql $(take_over) '$(DESTDIR)$(extensiondir)/'

install-command: $(command)
	install -d '$(DESTDIR)$(commanddir)' '$(DESTDIR)$(man1dir)'
	install -m 755 '$(command)' '$(DESTDIR)$(commanddir)/'
	install -m 644 '$(dir $(command))'*.1 '$(DESTDIR)$(man1dir)/'

uninstall:
	rm -f '$(DESTDIR)$(pkglibdir)/instagram_id.so' '$(DESTDIR)$(extensiondir)/'instagram_id* \
	    '$(DESTDIR)$(commanddir)/instagram_id_shards' '$(DESTDIR)$(man1dir)/instagram_id_shards'*.1

PG_REGRESS = $(pkglibdir)/pgxs/src/test/regress/pg_regress
REGRESS = $(basename $(notdir $(sort $(wildcard tests/regress/sql/*.sql))))
PG_ISOLATION_REGRESS = $(pkglibdir)/pgxs/src/test/isolation/pg_isolation_regress
ISOLATION = $(filter-out helpers,$(basename $(notdir $(sort $(wildcard tests/isolation/specs/*.spec)))))
# The tests have names with umlauts, so they need UTF8, whatever the server's default.
on_this_server = --bindir='$(bindir)' --load-extension=instagram_id --encoding=UTF8 --no-locale

installcheck: installcheck-regress installcheck-isolation

installcheck-regress:
	mkdir -p $(or $(OUTPUT),target/regress)
	'$(PG_REGRESS)' --inputdir=tests/regress --outputdir=$(or $(OUTPUT),target/regress) $(on_this_server) \
	    --dbname=contrib_regression $(REGRESS)

installcheck-isolation:
ifneq ($(wildcard $(PG_ISOLATION_REGRESS)),)
	mkdir -p $(or $(OUTPUT),target/isolation)
	'$(PG_ISOLATION_REGRESS)' --inputdir=tests/isolation --outputdir=$(or $(OUTPUT),target/isolation) $(on_this_server) \
	    --dbname=isolation_regression helpers $(ISOLATION)
else
	@echo 'The isolation tests are left out: there is no $(PG_ISOLATION_REGRESS)'
endif

help:
	@sed -n '/^#/!q; s/^# //p' Makefile

demo:
	scripts/demo.sh

check:
	T='$(T)' ACCEPT='$(ACCEPT)' scripts/check.sh

test:
	scripts/test.sh

test-clients test-packages test-majors test-citus:
	scripts/test.sh $(@:test-%=%)

test-all:
	scripts/test.sh --all

torture:
	scripts/torture.sh

goals:
	scripts/bench.sh --goals

bench:
	scripts/bench.sh

fuzz:
	scripts/fuzz.sh

package:
	scripts/package.sh

check-package:
	scripts/check_package.sh $(MAJORS)

check-monitoring:
	scripts/check_monitoring.sh

check-metadata:
	scripts/check_metadata.sh

image-tree:
	scripts/image_tree.sh '$(PG_CONFIG)' target/image

check-image-tree:
	scripts/image_tree.sh --check '$(PG_CONFIG)'

images:
	scripts/images.sh build

join-images:
	scripts/images.sh join $(MAJORS)

dist:
	scripts/dist.sh

check-tag:
	[ '$(TAG)' = 'v$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)' ]

clean:
	rm -rf target fuzz/target

.PHONY: all help install uninstall installcheck installcheck-regress installcheck-isolation demo check test test-clients test-packages test-majors test-citus test-all torture goals bench fuzz package check-package check-monitoring dist clean install-extension install-command check-metadata image-tree check-image-tree images join-images check-tag
