# bulkhead: `make up` starts a cluster, `make check` runs every test. See README.md.
PORT ?=
DATA ?= /var/lib/bulkhead
KUBELET_ROOT ?= /var/lib/kubelet
PURGE ?=
BUILD := build
export PORT DATA KUBELET_ROOT PURGE

SCOPE := $(if $(PORT),--port $(PORT),) --data-dir $(DATA) --kubelet-root $(KUBELET_ROOT)

.PHONY: all deps up down demo check check-long check-interop bench lint format clean
all: $(BUILD)/bulkhead

deps:
	@tools/install-deps.sh build

$(BUILD)/release/build.ninja: | deps
	@meson setup $(BUILD)/release --buildtype=release >/dev/null

.PHONY: release
release: $(BUILD)/release/build.ninja
	@ninja --quiet -C $(BUILD)/release bulkhead

# The program stands where the documentation says, whatever the build folder is called.
.PHONY: $(BUILD)/bulkhead
$(BUILD)/bulkhead: release
	@ln -sf release/bulkhead $(BUILD)/bulkhead
	@ln -sf release/bulkhead $(BUILD)/kubectl-device
	@test -x $(BUILD)/bulkhead

up: $(BUILD)/bulkhead
	@$(BUILD)/bulkhead up --background $(SCOPE)

down: $(BUILD)/bulkhead
	@$(BUILD)/bulkhead down $(if $(PURGE),--purge,) --data-dir $(DATA) --kubelet-root $(KUBELET_ROOT)

demo: $(BUILD)/bulkhead
	@tests/story/demo.sh

check: $(BUILD)/bulkhead
	@tools/install-deps.sh test
	@tools/check.sh

check-long: $(BUILD)/bulkhead
	@tools/install-deps.sh test
	@tools/check.sh --long

check-interop: $(BUILD)/bulkhead
	@tools/install-deps.sh test
	@tools/check.sh --interop

bench: $(BUILD)/bulkhead
	@tools/bench.sh $(CASES)

lint:
	@tools/lint.py

format:
	@find src -name '*.c' -o -name '*.h' | xargs clang-format-14 -i

clean:
	rm -rf $(BUILD)
