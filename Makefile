# Everything that a developer runs. `make test` is the proof (CI adds storms,
# mutants and fuzz) and needs no more than Go and git on the machine: it installs
# the rest where it may.

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK ?= golang.org/x/vuln/cmd/govulncheck@v1.9.0
FUZZTIME    ?= 10s
# One package at a time: some tests measure time, and all of them share the
# machine.
# Never from the cache: tests start the binary and servers, whose changes it
# does not see.
TESTFLAGS   ?= -race -p 1 -count=1 -timeout 20m
# Packages with tests that the race detector cannot take: they run once more
# without it.
NORACE      := ./proxy/lease ./proxy/route
# Packages that take minutes of their own.
STORMS      := -e /torture$$ -e /torture/attacks$$ -e /torture/leases$$ -e /torture/shared$$
# The long forms of the torture; WRITES is 200000 where several proxies share
# the store.
WRITES ?=
KILLS  ?= 200
FAULTS ?= 150
# So long are the leases of each store tortured.
TIME   ?= 10m
SEED   ?=
ONLY   ?=

.PHONY: test storms deps check vuln unit scripts fuzz mutants torture torture-shared torture-leases bench build

## test: deps, check, and the tests under the race detector, but for storms
test: deps check
	@# Building in parallel first: the tests then run one package at a time.
	$(GO) build -race ./...
	.ci/gotest $(TESTFLAGS) $$($(GO) list ./... | grep -v $(STORMS))
	.ci/gotest -count=1 -timeout 5m $(NORACE)

## storms: the short tortures of one proxy, of several and of leases, the attacks:
##   smuggling, floods, slow clients, hostile upstreams (CI runs them behind test)
storms: deps
	.ci/gotest $(TESTFLAGS) $$($(GO) list ./... | grep $(STORMS))

## deps: install what the tests need beside Go and git, or say what is missing
deps:
	.ci/deps

## check: format, vet for both systems, staticcheck
check:
	@out=$$(gofmt -l .) || exit 1; if [ -n "$$out" ]; then \
		echo "gofmt -l: these files are not formatted, run gofmt -w on them:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	GOOS=darwin CGO_ENABLED=0 $(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

## vuln: known vulnerabilities in what the binary calls, by the Go database; not
##   in test, since it asks the network (GOVULNDB= names a mirror or a copy)
vuln:
	.ci/vuln $(GOVULNCHECK) ./...

## unit: the tests without the race detector, the binary and the torture
unit:
	.ci/gotest -timeout 5m $$($(GO) list ./... | grep -v -e /cmd/ -e /torture$$ -e /torture/shared$$ -e /torture/leases$$ -e /torture/attacks$$)

## scripts: the tests over the real binary (scripts, nginx, the house)
scripts: deps
	.ci/gotest -timeout 5m ./cmd/...

## fuzz: every fuzz target for FUZZTIME, but for FuzzDamage (see .ci/fuzz)
fuzz:
	.ci/fuzz $(FUZZTIME)

## mutants: each rule of the protocol taken out, its test has to fail (ONLY=A2)
mutants: deps
	$(GO) run ./proxy/torture/mutants $(if $(ONLY),-only $(ONLY))

## torture: the long forms over HTTP/1.1 and HTTP/2 (WRITES=, KILLS=, SEED=,
##   ONLY=TestTorture or TestTortureHTTP2); the short ones are in storms,
##   and results are in proxy/torture/RESULTS.md
torture:
	FENCEPROXY_TORTURE_WRITES=$(or $(WRITES),1000000) FENCEPROXY_TORTURE_KILLS=$(KILLS) $(if $(SEED),FENCEPROXY_TORTURE_SEED=$(SEED)) \
		.ci/gotest -timeout 12h -v -run '^$(or $(ONLY),TestTorture(HTTP2)?)$$' ./proxy/torture

## torture-shared: the same for several proxies over one store (WRITES=, FAULTS=
##   for each proxy, SEED=, ONLY=etcd or postgres)
torture-shared:
	FENCEPROXY_TORTURE_WRITES=$(or $(WRITES),200000) FENCEPROXY_TORTURE_FAULTS=$(FAULTS) $(if $(SEED),FENCEPROXY_TORTURE_SEED=$(SEED)) \
		.ci/gotest -timeout 12h -v -run '^TestTortureShared$$/$(ONLY)' ./proxy/torture/shared

## torture-leases: fenceproxy lock over every store, with SIGSTOP and SIGKILL
##   for all of them (TIME= for each store, SEED=, ONLY=embedded, etcd, postgres or
##   redis)
torture-leases:
	FENCEPROXY_TORTURE_TIME=$(TIME) $(if $(SEED),FENCEPROXY_TORTURE_SEED=$(SEED)) \
		.ci/gotest -timeout 12h -v -run '^TestTortureLeases$$/$(ONLY)' ./proxy/torture/leases

## bench: the Go benchmarks
bench:
	$(GO) test -run '^$$' -bench . -benchmem -p 1 ./...

## build: the binary, ./fenceproxy, static, without what only a debugger needs
build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o fenceproxy ./cmd/fenceproxy
