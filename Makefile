# Everything needs Go alone. The integration tests and the demo run against a real control plane, which
# is built from Go modules the first time: a quarter of an hour with an empty Go build cache.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Go's ./... leaves folders called testdata out. The two left out here are modules of their own.
HELPERS := $(addprefix ./,$(patsubst %/,%,$(sort $(filter-out testdata/cluster/ testdata/oracles/,$(dir $(wildcard testdata/*/*.go))))))
PACKAGES := ./... $(HELPERS)
CLUSTER := go run -C testdata/cluster .
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)

.PHONY: help demo build test oracles lint bench soak verify generate cluster clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Watch Trueup at work; KEEP=1 stays up, REPO=URL DIR=path shows a repository of yours
	@go build -o bin/demo ./testdata/demo # go run would end with an error after Ctrl-C, however the demo ends
	bin/demo $(if $(KEEP),--keep) $(if $(REPO),--repo '$(REPO)') $(if $(DIR),--dir '$(DIR)')

build: ## Build bin/trueup
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o bin/trueup ./cmd/trueup

test: ## Run all tests, against a real control plane, with the race detector
	$(CLUSTER) binaries # here, since a first build takes longer than go test allows a test
	cd testdata/cluster && go vet . && go test -race .
	go vet $(PACKAGES)
	$(CLUSTER) exec -C '$(CURDIR)' -- go test -race -timeout 30m $(PACKAGES)

oracles: ## Hold what is decrypted against SOPS itself and charts against Helm, which take minutes to build the first time
	cd testdata/oracles && go vet ./... && go test ./...

lint: ## Check the format and the code
	@unformatted=$$(gofmt -l .); if [[ -n $$unformatted ]]; then echo "Run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet $(PACKAGES)
	$(STATICCHECK) $(PACKAGES)
	cd testdata/cluster && $(STATICCHECK) .
	cd testdata/oracles && go list -test -deps ./... >/dev/null # else a forgotten go mod tidy is told only by what is built last

bench: ## Run the benchmarks, against a real control plane
	$(CLUSTER) exec -C '$(CURDIR)' -- go test -run '^$$' -bench . -benchmem -timeout 60m $(PACKAGES)

soak: ## Run the long tests; SOAK=1h sets for how long
	$(CLUSTER) exec -C '$(CURDIR)' -- env TRUEUP_SOAK=$(or $(SOAK),1h) go test -run '^TestSoak' -count 1 -timeout 0 $(PACKAGES)

generate: ## Write the generated files again
	go generate $(PACKAGES)

verify: generate ## Check that the generated files are up to date, then lint and test everything
	@git diff --exit-code || { echo "The generated files are out of date: commit what make generate has changed."; exit 1; }
	$(MAKE) lint test oracles

cluster: ## Run a Kubernetes control plane until Ctrl-C
	$(CLUSTER)

clean: ## Remove what was built here; the control plane's binaries stay in the user's cache
	rm -rf bin coverage.out
