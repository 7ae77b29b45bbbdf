# What people and CI run. `make help` lists it. demo, test and build need Go, make and git; check needs a C compiler too
# (the race detector), and builds the linter from source the first time. Tests of Kafka need Java 17 and Maven, those of
# PostgreSQL its server: where they are missing these tests are not run, which is said at the end.

GO      ?= go
PKG     ?= ./...
# Tests that run brokers and kill processes take minutes.
TIMEOUT ?= 30m
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# The tools are pinned in internal/cmd/tools/go.mod and kept by its go.sum and the compiler that built them.
TOOLS    := .cache/bin/$(shell { cat internal/cmd/tools/go.sum; $(GO) version; } | cksum | cut -d' ' -f1)
LINT     := $(TOOLS)/golangci-lint
BENCHSTAT := $(TOOLS)/benchstat

CAPTURE := internal/demo/capture

BENCH         ?= .
FUZZ          ?= .
FUZZTIME      ?= 10m
FUZZ_PARALLEL ?= 2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

# go test says nothing of what was skipped.
define say-missing
@{ command -v java && command -v mvn; } >/dev/null || echo '*** NOT TESTED: Kafka, because Java 17 or Maven is missing (with NODETRAIL_REQUIRE_KAFKA=1 an error)' >&2
@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || echo '*** NOT TESTED: PostgreSQL, which is not installed (with NODETRAIL_REQUIRE_POSTGRES=1 an error)' >&2
endef

.PHONY: demo
demo: ## play a real cluster's migration to nodetrail run, with pages to look at; no cluster needed. Ctrl-C ends it
	@$(GO) run ./cmd/nodetrail demo

.PHONY: build
build: ## build the static program bin/nodetrail
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/nodetrail ./cmd/nodetrail

# A test needs no program that is optimized by a profile, which takes as long to build as all else.
quick test race chart e2e dashboards-test web-test: export GOFLAGS := $(shell $(GO) env GOFLAGS) -pgo=off

# Many tests wait most of their time: with more at once than there are cores, the cores have work meanwhile.
.PHONY: test
test: ## run the tests (PKG=./... by default)
	$(GO) test -p 3 -parallel 6 -timeout $(TIMEOUT) $(PKG)
	$(say-missing)

# Kills the program all the time; its tests have nothing to do without that.
KILLS := internal/test/killtest

.PHONY: quick
quick: ## run the tests that need no broker, no database, no browser and kill nothing, in under a minute from warm caches
	GOGC=400 $(GO) test -short -vet=off -ldflags='-s -w' -p 4 -parallel 8 -timeout 5m $$($(GO) list ./... | grep -v '/$(KILLS)$$')
	@echo '*** NOT TESTED (make test does): $(KILLS)/, and with Kafka or PostgreSQL:' \
		$$(git grep --untracked -lE 'kafkatest[.]Start|pgtest[.]' -- '*_test.go' ':!e2e' ':!$(KILLS)' | xargs -n 1 dirname | sort -u | sed 's,$$,/,') >&2

# A program under the race detector waits a second before it ends, and tests start hundreds.
race: export GORACE := atexit_sleep_ms=0

# What has no go statement, no parallel test and calls nothing of the like has no race of its own to find.
RACING := $$($(GO) list -f '{{.Dir}}' ./... | while read -r dir; do grep -qE '^\s*go [a-z]|\{ go |\.Go\(|\.Parallel\(\)|\.(NewServer|Serve|AfterFunc)\(' "$$dir"/*.go && echo "$$dir"; done)

.PHONY: race
race: ## run the tests of what starts goroutines, or has tests that do, under the race detector (PKG=./... for all; RACEFLAGS='-skip TestReady')
	$(GO) test -race $(foreach flag,$(RACEFLAGS),'$(flag)') -p 3 -timeout $(TIMEOUT) $(if $(filter command line,$(origin PKG)),$(PKG),$(RACING))
	$(say-missing)

.PHONY: bench
bench: bench-log ## run the benchmarks (BENCH=regexp, PKG=./...) after bench-log
	$(GO) test -run='^$$' -bench='$(BENCH)' -benchmem -timeout=0 $(PKG)

.PHONY: bench-log
bench-log: build ## time analyze, jq and grep on the same large logs, in turns (LOGBENCHFLAGS='-before PROGRAM' for another commit's)
	$(GO) run ./internal/cmd/logbench -nodetrail bin/nodetrail -capture $(CAPTURE) $(LOGBENCHFLAGS)

.PHONY: profile
profile: ## record what the compiler optimizes nodetrail for, cmd/nodetrail/default.pgo
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/logbench ./internal/cmd/logbench
	bin/logbench -capture $(CAPTURE) -rounds 6 -record cmd/nodetrail/default.pgo

.PHONY: bench-run
bench-run: build ## put load on nodetrail run: webhook, Kafka, a storm of refusals, more than it takes (BENCHFLAGS='-for 30s')
	$(GO) run ./internal/cmd/runbench -nodetrail bin/nodetrail -capture $(CAPTURE) $(BENCHFLAGS)

.PHONY: bench-hour
bench-hour: build ## for the night: an hour of 20,000 events a second by webhook, after whose first ten minutes memory must not grow
	$(GO) run ./internal/cmd/runbench -nodetrail bin/nodetrail -capture $(CAPTURE) -loads webhook -for 1h

.PHONY: benchstat
benchstat: $(BENCHSTAT) ## compare two outputs of make bench (OLD=file NEW=file)
	$(BENCHSTAT) $(OLD) $(NEW)

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME=10m with FUZZ_PARALLEL=2 workers (FUZZ=regexp, PKG=./...)
	$(GO) run ./internal/cmd/fuzzall -fuzztime '$(FUZZTIME)' -parallel '$(FUZZ_PARALLEL)' -targets '$(FUZZ)' $(PKG)

# For the night. The seed is printed; with it and READY_FROM a run that ended early is taken up.
READY_CASES ?= 100000
READY_FROM  ?= 0
READY_SEED  ?= $(shell date +%s)

.PHONY: fuzz-ready
fuzz-ready: ## put READY_CASES=100000 made-up days through the checks behind READY, and hold the store against analyze for each mutation (READY_SEED=1 READY_FROM=0)
	GOGC=400 NODETRAIL_READY_CASES='$(READY_CASES)' NODETRAIL_READY_FROM='$(READY_FROM)' NODETRAIL_READY_SEED='$(READY_SEED)' \
		$(GO) test -count=1 -timeout 0 -run '^Test(Ready|StoreProvesWhatAnalyzeProves)$$' -v ./app

# For the night: an attack is a simulated half-hour, and takes a fifth of a second; a quiet day of 500 nodes takes a minute or two. The seed is in the output.
ATTACKS     ?= 10000
QUIET_DAYS  ?= 10
NETWORKS    ?= 100
HOSTILE_FOR ?= 10m
ATTACK_SEED ?= $(shell date +%s)

.PHONY: attack
attack: attack-hostile ## compose ATTACKS=10000 attacks around one theft each, and see that each theft is named (ATTACK_SEED=n); QUIET_DAYS=10 of 500 nodes raise no alert; NETWORKS=100 days of each kind of network
	NODETRAIL_ATTACKS='$(ATTACKS)' NODETRAIL_ATTACK_SEED='$(ATTACK_SEED)' $(GO) test -count=1 -v -timeout 0 -run '^Test(Attacks|Defects|Attack02FloodOfLongNames)$$' ./internal/test/days
	NODETRAIL_DAYS='$(QUIET_DAYS)' $(GO) test -count=1 -v -timeout 0 -run '^TestLargeClustersAreQuiet$$' ./internal/test/days
	NODETRAIL_NETWORKS='$(NETWORKS)' $(GO) test -count=1 -v -timeout 0 -run '^Test(NetworksAreQuiet|TheftThroughNetworks)$$' ./internal/test/days

.PHONY: attack-hostile
attack-hostile: build ## starve nodetrail run of connections, from one address and from fifty, and flood it with refused requests, each for HOSTILE_FOR=10m
	$(GO) run ./internal/cmd/runbench -nodetrail bin/nodetrail -capture $(CAPTURE) -loads starve,flood -for $(HOSTILE_FOR)

.PHONY: check
check: static chart release-test race ## everything that needs no control plane and no browser: tests under the race detector last
	@echo 'check: all good'

.PHONY: static
static: format tree words modules generated vet lint ## what reads the sources and runs nothing

.PHONY: chart
chart: ## lint the Helm chart, refuse wrong values, and compare what it renders with the program and the plain manifests
	cd deploy/helm && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) test -count=1 -timeout $(TIMEOUT) ./...
	cd deploy/score && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) test -count=1 -timeout $(TIMEOUT) ./...

# A release is RELEASE=1.2.3; without it, a snapshot of the commit. The time of all files is the commit's.
RELEASE   ?= 0.0.0-snapshot.g$(shell git rev-parse --short=12 HEAD)
PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64

.PHONY: release-snapshot
release-snapshot: ## make archives, packages, SBOMs, the image and checksums in dist/ (RELEASE=1.2.3 PLATFORMS=linux/amd64)
	rm -rf dist
	$(GO) run -C internal/cmd/release . -root '$(CURDIR)' -out '$(CURDIR)/dist' -version '$(RELEASE)' -platforms '$(PLATFORMS)' -epoch "$$(git log -1 --format=%ct)"

.PHONY: release-test
release-test: ## make a release for linux/amd64 twice, compare the checksums, unpack and run what is in it
	cd internal/cmd/release && $(GO) mod tidy -diff && $(GO) vet . && $(GO) test -count=1 -timeout $(TIMEOUT) .

# Not npm ci: it wants the packages of all platforms in the lock file, and not every registry has them. The versions are the lock file's all the same.
.PHONY: site
site: ## build docs/ as a static site in dist/site (needs npm); a link that leads nowhere is an error
	npm install --no-save --prefix internal/site
	cd internal/site && npx --no-install vitepress build .

.PHONY: dashboards-test
dashboards-test: ## hold dashboards, alerts and the stack against Prometheus, Alertmanager and compose (e2e/install.sh first)
	cd e2e && $(GO) test -count=1 -timeout $(TIMEOUT) ./alerts/... ./compose/... ./dashboards/...

.PHONY: web-test
web-test: ## hold the pages against a real browser: every page, keys, barriers, a store of 10,000 findings (e2e/install.sh first)
	cd e2e && $(GO) test -count=1 -timeout $(TIMEOUT) ./web/...

.PHONY: screenshots
screenshots: build ## make docs/screenshots from the demo (e2e/install.sh first); look at them before they are committed
	cd e2e && $(GO) run ./web/screenshots -nodetrail ../bin/nodetrail -out ../docs/screenshots

# Ctrl-C, or SIGTERM to e2e, ends all that it has started.
.PHONY: e2e
e2e: ## run the real thing: control plane, kubelets, Kafka, alerts (installs what Debian has; NODETRAIL_E2E_CHURN=10m)
	e2e/install.sh
	cd e2e && $(GO) test ./cmd/...
	$(GO) build -C e2e -o '$(CURDIR)/.cache/bin/e2e' ./cmd/e2e
	cd e2e && exec ../.cache/bin/e2e

# For the night: each minor takes minutes to build the first time. There are module files for 1.36 to 1.33 and for 1.29; of some
# modules of 1.30 to 1.32 the checksum database has no record. What a minor does not have is counted as not run.
MINORS ?= 1.35 1.33 1.29

POLICIES ?= $(basename $(notdir $(wildcard coverage/testdata/policies/*.yaml)))

.PHONY: e2e-minors
e2e-minors: ## play the scenarios on older minors' own control planes and kubelets (MINORS="1.35 1.33 1.29")
	e2e/install.sh
	$(GO) build -C e2e -o '$(CURDIR)/.cache/bin/e2e' ./cmd/e2e
	cd e2e && for minor in $(MINORS); do \
		echo "Kubernetes $$minor"; NODETRAIL_E2E_KUBERNETES=$$minor ../.cache/bin/e2e -page ../docs/e2e.md -run '^(TestMigration|TestScenarios|TestEmulatedVersion|TestPodCertificates)$$' scenarios || exit 1; \
	done

.PHONY: e2e-policies
e2e-policies: ## reach READY and CONFINED with each policy of coverage/testdata/policies as policy check --fix changes it (POLICIES="eks gce")
	e2e/install.sh
	$(GO) build -C e2e -o '$(CURDIR)/.cache/bin/e2e' ./cmd/e2e
	cd e2e && for policy in $(POLICIES); do \
		echo "policy $$policy"; NODETRAIL_E2E_POLICY=$$policy ../.cache/bin/e2e -run '^TestPolicyFixed$$' confined || exit 1; \
	done

.PHONY: e2e-page
e2e-page: ## as e2e, with ten minutes of churn, and write docs/e2e.md
	e2e/install.sh
	$(GO) build -C e2e -o '$(CURDIR)/.cache/bin/e2e' ./cmd/e2e
	cd e2e && NODETRAIL_E2E_CHURN=10m exec ../.cache/bin/e2e -page ../docs/e2e.md

.PHONY: e2e-breaks
e2e-breaks: ## break nodetrail where each end-to-end test looks, and see the test fail (ONLY=regexp)
	cd e2e && $(GO) run ./cmd/breaks '$(ONLY)'

.PHONY: format
format: ## fail on Go files that gofmt would change
	@bad=$$(git ls-files -z --cached --others --exclude-standard -- '*.go' | xargs -0 -r ls -d 2>/dev/null \
		| xargs -r "$$($(GO) env GOROOT)/bin/gofmt" -s -l) || exit 1; \
	if [ -n "$$bad" ]; then printf 'not formatted (gofmt -s -w):\n%s\n' "$$bad"; exit 1; fi

# absent fails on the lines of text files, new ones included, that git grep finds, and says what is wrong with them. The brackets in the
# expressions below keep them from finding themselves.
absent = @git grep --untracked -nI $(1); case $$? in 0) echo '*** $(2)' >&2; exit 1 ;; 1) ;; *) exit 2 ;; esac
SOURCES := ':!*.sum'
MAX_LINES := 600
MAX_COMMAND := 2000

.PHONY: tree
tree: ## fail on what must not be in the tree: machine paths, registries, unfinished work, skipped tests, replace lines, long files
	$(call absent,-E '/(work|root|farm|tmp)[/]' -- $(SOURCES),a path of one machine)
	@hosts=$$($(GO) env GOPROXY | tr ',|' '\n\n' | sed -nE 's#^[a-z]+://([^/@]*@)?([^/]+).*#\2#p'); for host in $$hosts; do \
		git grep --untracked -nIF -e "$$host" -- $(SOURCES); case $$? in 0) echo '*** the host of a module proxy' >&2; exit 1 ;; 1) ;; *) exit 2 ;; esac; done
	$(call absent,-wE '(T[O]DO|F[I]XME)' -- $(SOURCES),unfinished work)
	$(call absent,-wE '(t|b|f|tb)\.S[k]ip(f|Now)?' -- '*.go' ':(exclude,glob)internal/test/kafkatest/*.go' ':(exclude,glob)internal/test/pgtest/*.go',a skipped test: only Kafka and PostgreSQL may be missing)
	$(call absent,-E '^[[:space:]]*(replace([^[:alnum:]]|$$)|(require[[:space:]]+)?k8s\.io/kubernetes[[:space:]])' -- go.mod,replace lines and k8s.io/kubernetes would break go install)
	@git grep --untracked -zLE '^// Code generated .* DO NOT EDIT\.$$' -- '*.go' | xargs -0 awk -v most=$(MAX_LINES) \
		'FNR == most + 1 { print FILENAME ": more than " most " lines"; long = 1 } END { exit long }'
	@git ls-files --cached --others --exclude-standard -- 'cmd/nodetrail/*.go' | grep -v '_test\.go$$' | xargs -r ls -d 2>/dev/null | xargs cat | awk -v most=$(MAX_COMMAND) \
		'END { if (NR > most) { print "cmd/nodetrail: " NR " lines, more than " most ": what is no flag, help or exit status belongs into app"; exit 1 } }'

.PHONY: words
words: ## fail on words that puzzle readers (internal/test/words/banned.txt says what to write instead)
	$(GO) test -count=1 ./internal/test/words

.PHONY: modules
modules: ## fail when go.mod is not tidy, or a module differs from its checksum
	$(GO) mod tidy -diff
	$(GO) mod verify

# The tree before and after, new files included, is written with an index of its own: the work tree need not be clean.
.PHONY: generated
generated: ## fail when go generate changes a file
	@index=$$(mktemp) && trap 'rm -f "$$index"' EXIT && cp "$$(git rev-parse --git-path index)" "$$index" && \
	tree() { GIT_INDEX_FILE=$$index git add -A && GIT_INDEX_FILE=$$index git write-tree; } && \
	before=$$(tree) && $(GO) generate ./... && after=$$(tree) && git diff --stat --exit-code "$$before" "$$after"

.PHONY: vet
vet: ## run go vet, in the nested modules that import this one, too, and hold the lists of planted defects against the code
	$(GO) vet ./...
	cd audit/jsonbench && $(GO) vet ./...
	cd e2e && $(GO) vet ./... && $(GO) test ./cmd/breaks
	cd conformance && $(GO) test ./cmd/conform

.PHONY: lint
lint: $(LINT) ## run golangci-lint, with the import rules
	$(LINT) run $(PKG)

$(LINT): PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BENCHSTAT): PACKAGE := golang.org/x/perf/cmd/benchstat
$(LINT) $(BENCHSTAT):
	CGO_ENABLED=0 $(GO) build -C internal/cmd/tools -trimpath -o '$(CURDIR)/$@' $(PACKAGE)

.PHONY: clean
clean: ## remove what make built
	rm -rf bin dist .cache

-include conformance/conformance.mk
