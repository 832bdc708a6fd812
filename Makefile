# nearmetal: the two commands a newcomer needs are `make demo` and `make test`.
SHELL := /bin/bash
TARGET := $(shell rustc -vV | sed -n 's/^host: //p')

# The probe is copied into machines that have nothing installed, so it carries its C library with it.
probe:
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target $(TARGET)

.PHONY: probe
