# Agent Runtime: every command of the project. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

GO ?= go
# Small static binaries whose bytes do not depend on where they were built.
RELEASE := -trimpath -ldflags '-s -w'
# What --version says where Go finds no repository, or may not look for one.
COMMIT ?= $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null)
STAMP = -X=agentruntime/internal/process/cli.commit=$(COMMIT)
# $(PROGRESS) compiles as `go build` does, and counts the packages.
PROGRESS := GO='$(GO)' bin/progress
# Where the programs come from that `make conformance` tests against.
NODE_DIR := test/node

# $(call tagged,TAG) lists the packages that have tests behind a build tag.
tagged = $(shell grep -rlE --include='*_test.go' --exclude-dir=node_modules '^//go:build $(1)$$' . | xargs -r -n1 dirname | sort -u)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- working on it ----------------------------------------------------------

# TEMPORAL=host:port is the address of a Temporal server that runs already. The binary
# then contains none, which makes it small and quick to compile.
dev_binary = bin/agentruntime-dev$(if $(TEMPORAL),-external)

.PHONY: dev
dev: bin/progress ## run everything in one process tree (ARGS='--listen :8080', TEMPORAL=host:port)
	@echo 'Compiling what is not compiled yet; the first time takes minutes.'
	@GOFLAGS="$$($(GO) env GOFLAGS) -ldflags=$(STAMP)" $(PROGRESS) $(if $(TEMPORAL),-tags external) -o $(dev_binary) ./cmd/agentruntime-dev
	@$(dev_binary) $(if $(TEMPORAL),--temporal '$(TEMPORAL)') $(ARGS)

.PHONY: build
build: ## build the product binary, bin/agentruntime
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w $(STAMP)' -o bin/agentruntime ./cmd/agentruntime

.PHONY: gen
gen: bin/sqlc ## generate db/dbsqlc from queries/, the OpenAPI document, and whatever go:generate names
	bin/sqlc generate
	$(GO) generate ./...

.PHONY: record-turns
record-turns: ## record the histories of messages to agents again, as long as their workflow is not released
	rm -f workflows/testdata/*_turn_*.json
	$(GO) test -vet=off -count=1 ./test/e2e -run '^TestTemporalTurnsShowSummariesOnly$$' -record
	$(GO) test -vet=off -count=1 ./workflows -run RecordedHistor

.PHONY: fmt
fmt: bin/golangci-lint ## format the Go code the way lint wants it
	bin/golangci-lint fmt

# --- checking it ------------------------------------------------------------

# The race detector takes up to fifteen times as long, so it has a lane of its own: the packages that start
# goroutines, as internal/dev/arch checks, and what those share. `make test-race` has all packages. The
# suites that use test/rig run the service as processes of their own, which the detector of the test's
# process does not see.
# The suites come first: they take longest, and mostly wait, so that others run beside them. They find
# compiled what they build of cmd/. The linters of `make verify` vet, tagged files too: with each test, vet
# would read all packages again, in every lane.
RACE := activities api internal/action/run internal/agents/conversation internal/base/bytelru \
	internal/base/share internal/base/turns internal/edge/egress internal/edge/engine internal/edge/issuer \
	internal/edge/jqchild internal/maps/execution internal/process/app internal/process/memory \
	internal/provider/httpcall internal/provider/vault internal/record/audit internal/record/ended \
	internal/record/event internal/service/answering internal/service/dispatch internal/service/importing \
	internal/service/mailing internal/service/stepping internal/tenant/auth internal/tenant/limits \
	internal/tenant/webhook

# The packages with tests that are not in that lane, the suites first.
plain = $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | \
	awk -v race=' $(RACE:%=agentruntime/%) ' '$$1 && !index(race, " " $$1 " ")' | sort -r

.PHONY: test
test: bin/progress bin/stripe-mock ## run the tests, with the race detector where it is affordable
	packages=$$($(plain)); $(PROGRESS) -tests $$packages; $(PROGRESS) ./cmd/...; $(GO) test -vet=off -timeout 30m $$packages
	$(PROGRESS) -tests -race $(RACE:%=./%); $(GO) test -race -vet=off -timeout 30m $(RACE:%=./%)

.PHONY: test-race
test-race: bin/stripe-mock ## run all tests with the race detector, the Temporal server too (slow)
	$(GO) test -race -timeout 40m ./...

.PHONY: lint
lint: bin/golangci-lint bin/workflowcheck ## run golangci-lint, and workflowcheck for determinism
	bin/golangci-lint run ./...
	bin/workflowcheck ./workflows/...

.PHONY: verify
verify: verify-gen verify-format verify-modules lint ## everything that must pass before a commit, besides the tests
	$(GO) vet -tags external ./cmd/agentruntime-dev # the linters vet the rest

# Compares the tree with itself before and after, so it works on uncommitted
# changes and in an exported archive.
snapshot = find . \( -name .git -o -name bin -o -name .dev -o -name node_modules \) -prune -o -type f -exec sha256sum {} + | sort -k2

.PHONY: verify-gen
verify-gen: bin/sqlc ## fail when generated files are not what `make gen` makes
	before=$$($(snapshot)); \
	$(MAKE) --no-print-directory gen; \
	diff <(printf '%s\n' "$$before") <($(snapshot)) || { echo 'generated files were out of date: commit what `make gen` wrote' >&2; exit 1; }

.PHONY: verify-format
verify-format: ## fail when a Go file is not gofmt-ed
	unformatted=$$(gofmt -l $$(find . \( -name .git -o -name node_modules \) -prune -o -name '*.go' -print)); \
	[[ -z $$unformatted ]] || { echo "not gofmt-ed:" $$unformatted >&2; exit 1; }

.PHONY: verify-modules
verify-modules: ## fail when go.mod is not tidy
	$(GO) mod tidy -diff

.PHONY: conformance
conformance: bin/stripe-mock node ## run the tests that need Node (prism, real API documents)
	$(GO) test -vet=off -tags conformance -run '^TestConformance' -count=1 -timeout 15m $(call tagged,conformance)

.PHONY: corpus
corpus: node test/corpus/node_modules/.package-lock.json ## check published API documents: tools of 300, calls of 600 verbs (downloads 45 MB)
	$(GO) test -vet=off -tags corpus -run '^TestCorpus' -count=1 -timeout 60m $(call tagged,corpus)

.PHONY: chaos
chaos: ## kill processes at every failpoint, the long lane (an hour)
	$(GO) test -vet=off -tags chaos -run '^TestChaos' -count=1 -timeout 120m -v $(call tagged,chaos)

# Each package fuzzes one target at a time.
.PHONY: fuzz
fuzz: ## change inputs at random, a minute for each fuzz target (FUZZTIME=1m, FUZZ=Template)
	grep -rnoE --include='*_test.go' --exclude-dir=node_modules '^func Fuzz$(FUZZ)\w*' . | sed -E 's|/[^/]*_test\.go:[0-9]+:func | |' | sort | \
	{ failed=0; while read -r package target; do \
		$(GO) test -vet=off -run '^$$' -fuzz "^$$target$$" -fuzztime $(or $(FUZZTIME),1m) "$$package" || failed=1; \
	done; exit $$failed; }

.PHONY: soak
soak: ## two APIs and two workers under load and kills, memory watched (SOAK_MINUTES=30)
	$(GO) test -vet=off -tags soak -run '^TestSoak' -count=1 -timeout 75m -v $(call tagged,soak)

.PHONY: bench
bench: bin/progress ## measure requests beside each other, and write docs/reference/costs.md (ARGS='--only run')
	@$(PROGRESS) -o bin/agentruntime-dev ./cmd/agentruntime-dev
	bin/agentruntime-dev bench --page docs/reference/costs.md $(ARGS)

.PHONY: clean
clean: ## remove what was built (not .dev, which has your data)
	rm -rf bin $(NODE_DIR)/node_modules test/corpus/node_modules

# It needs no more than a small part of the standard library.
bin/progress: $(filter-out %_test.go,$(wildcard internal/dev/progress/*.go))
	$(GO) build -o $@ ./internal/dev/progress && touch $@

# --- tools, each from its own module under tools/ ---------------------------

# $(call tool,MODULE DIRECTORY,PACKAGE). GOGC: see goCommand in internal/dev/progress.
tool = CGO_ENABLED=0 GOGC=400 $(GO) -C tools/$(1) build $(RELEASE) -o $(CURDIR)/$@ $(2) && touch $@

bin/sqlc: tools/sqlc/go.mod tools/sqlc/go.sum
	$(call tool,sqlc,github.com/sqlc-dev/sqlc/cmd/sqlc)

bin/golangci-lint: tools/lint/go.mod tools/lint/go.sum
	$(call tool,lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)

bin/stripe-mock: tools/stripemock/go.mod tools/stripemock/go.sum
	$(call tool,stripemock,github.com/stripe/stripe-mock)

bin/workflowcheck: tools/workflowcheck/go.mod tools/workflowcheck/go.sum
	$(call tool,workflowcheck,go.temporal.io/sdk/contrib/tools/workflowcheck)

.PHONY: node
node: $(NODE_DIR)/node_modules/.package-lock.json ## install the Node programs that conformance uses

# npm writes this file last, so it dates the installation.
%/node_modules/.package-lock.json: %/package.json %/package-lock.json
	cd $* && npm ci --ignore-scripts --no-audit --no-fund
	touch $@
