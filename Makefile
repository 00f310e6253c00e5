# Every line here is one a person could type.

TAGS     = urfave_cli_no_template
TOOL     = go tool -modfile=tools.mod
FUZZTIME = 50000x
BENCH    = .
COUNT    = 6
MICRO    = ./cache ./model/... ./httpapi ./httpapi/encode ./internal/vector ./lineproto ./meta ./query/... ./series ./shard ./tsi/... ./tsm ./tsm/codec ./wal ./wal/entry
HOT      = Parse|Table|Encode|Append|Apply|Gather|Times|Integers|Floats|Dense|Loops|Strings|Booleans|Unpack|Find|Scan|Write|Keys|SeriesFile|Index|Select|JSON|ShardGroupAt|NewestCached
COLD     = Reference|Short|IndexSize|NewSeries
SERVERS  = tsdbd=bin/tsdbd,influxd,victoria-metrics=bin/peers/victoria-metrics,prometheus=bin/peers/prometheus,null-wal
SCALE    = 1
REPORT   = docs/bench/cold.md
CLUSTER  = go test -count=1 -v -timeout 4h ./internal/testkit/clustertest -election-timeout=1s

.PHONY: all build fmt lint test test-long race fuzz crash crash-long soak bench bench-micro bench-scale bench-encodings bench-peers bench-e2e cluster-chaos cluster-long cluster-rejoin cluster-flips cluster-bench cluster-balancers cluster-five downsamples-long golden cover clients clients-follower client-compliance docs-test cross test-386 test-qemu dist dist-test dist-again release licenses chart run ui ui-check browser cluster help

all: fmt lint test

build: ## build bin/tsdbd
	go build -tags $(TAGS) -ldflags "$$(.ci/version ldflags)" -o bin/tsdbd ./cmd/tsdbd

fmt: ## format the code
	$(TOOL) gofumpt -w $$(git ls-files '*.go')

lint: ## vet and staticcheck
	go vet ./...
	STATICCHECK_CACHE=$$(go env GOCACHE)/staticcheck $(TOOL) staticcheck ./...

# Many tests wait, for elections and for servers that they start: so twice as many
# packages as cores run at a time.
test: ## all tests, three to five minutes on two cores
	go test -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) -timeout 30m ./...

test-long: ## kills, storms and little memory, longer than make test has them: before a release
	go test -count=1 -timeout 30m -run '^Test(Kill|Storm|MemoryLimit|GoMemoryLimit|LongKeysInLittleMemory)$$' ./internal/testkit/apptest \
		-kill-rounds=50 -storm-time=10s -memory-time=8s -long-keys=10000

downsamples-long: ## downsamples of a server and of a cluster against a shadow, 500 random steps of 20 seeds and 200 steps: before a release, an hour
	TSDBD_SEED=$${TSDBD_SEED:-random} go test -count=1 -timeout 3h -parallel 8 -run '^TestJudge$$' -v ./internal/testkit/apptest -judge-seeds=20 -judge-steps=500
	TSDBD_SEED=$${TSDBD_SEED:-random} go test -count=1 -timeout 3h -run '^TestJudge$$' -v ./internal/testkit/clustertest -judge-steps=200

cross: ## build and vet for every system, tests as well
	.ci/cross

test-386: ## all packages' tests as a 32-bit program, which this machine runs
	CGO_ENABLED=0 GOARCH=386 go test -short -vet=off -timeout 30m $$(go list ./... | grep -vE '/internal/(archtest|testkit/(apptest|clustertest|browsertest|versions))$$')

test-qemu: ## formats and codecs as ARM programs under qemu, if it is installed: before a release
	.ci/qemu

race: ## tests of the concurrent packages under the race detector, with the order of locks checked
	go test -timeout 30m -race -short -tags invariants $$(.ci/packages race)

fuzz: ## every fuzz target on FUZZTIME inputs
	.ci/fuzz $(FUZZTIME)

crash: ## power cuts and failing disks in memory, kill -9 of the binary
	go test -count=1 -run 'Crash|Kill|Fault|Torn' ./...

crash-long: ## a power cut before each of 10,000 file operations, and every byte of a log of a cluster flipped, six minutes
	go test -count=1 -timeout 60m -run '^TestCrash(Control)?$$' -v ./store -crash-points=10000 -crash-every=1
	go test -count=1 -timeout 60m ./cluster/raftlog -long

.PHONY: version-data
version-data: ## what this build writes, into testdata/versions/VERSION, for the tests of later ones: before a release, five minutes
	go test -count=1 -timeout 30m -run '^TestMake$$' ./internal/testkit/versions -make=$(VERSION)

.PHONY: same-answers cold-faults soak-long steady upgrade
steady: ## every test three times, those that wait 50 times, beside four processes that burn: hours
	.ci/steady

same-answers: ## the same random changes to eight servers of other settings give the same answers, an hour
	TSDBD_SEED=$${TSDBD_SEED:-random} go test -count=10 -timeout 2h -run '^TestSameAnswers$$' -v ./internal/testkit/apptest -same-rounds=12 -same-servers=8

cold-faults: ## a cold store that is away for ten minutes, and wrong, slow and refusing for half a minute each, under load: twenty minutes
	go test -count=1 -timeout 2h -v -run '^TestColdFaults$$' ./internal/testkit/apptest -cold-away=10m -cold-fault=30s

soak-long: ## an hour of the same load, with flat memory, open files, goroutines and disk
	go test -count=1 -timeout 2h -run '^TestSoak$$' -v ./internal/testkit/apptest -soak-time=1h

upgrade: ## opens what each version has left; upgrades a cluster under load to newer formats, and goes back
	go test -count=1 -timeout 30m -v ./internal/testkit/versions
	$(CLUSTER) -run '^Test(Format)?Upgrade$$' -upgrade

soak: ## the random tests from new seeds, a failure prints its own
	TSDBD_SEED=random go test -count=1 ./...

bench: ## benchmarks matching BENCH, COUNT times, for benchstat
	go test -run '^$$' -bench '$(BENCH)' -count=$(COUNT) ./... | tee bench.txt
	$(TOOL) benchstat bench.txt

bench-micro: ## hot functions of every package, into docs/bench/MICRO.md
	go test -run '^$$' -bench '$(HOT)' -skip '$(COLD)' -benchmem -benchtime 50ms $(MICRO) > bench.txt
	go run -C bench ./benchdoc ../docs/bench/MICRO.md < bench.txt

bench-scale: ## growth with series, rows, shards and clients, into docs/performance.md
	go test -run '^$$' -bench ScaleWrite -benchtime 10x ./server > bench.txt
	go test -run '^$$' -bench ScaleQuery -benchtime 20x ./server >> bench.txt
	go run -C bench ./benchdoc -by benchmark ../docs/performance.md < bench.txt

bench-encodings: ## blocks and bytes by encoding of four workloads, into docs/bench/encodings.md
	go test -run '^$$' -bench Encodings -benchtime 1x ./inspect > bench.txt
	go run -C bench ./benchdoc -by benchmark ../docs/bench/encodings.md < bench.txt

bench-peers: ## build peers for bench-e2e from their modules into bin/peers
	bench/peers bin/peers

bench-e2e: build ## compare with the peers in SERVERS that are there end to end, an hour
	go build -C bench -o ../bin/tsdbd-load .
	bin/tsdbd-load bench -servers $(SERVERS) -report docs/bench/RESULTS.md
	bin/tsdbd-load promql -servers $(SERVERS) -report docs/bench/prometheus.md

.PHONY: bench-cold
bench-cold: build ## a year in an object store, a million cold series, 100 GB of tails, into docs/bench/cold.md, half an hour; SCALE=0.02 is a minute
	go build -C bench -o ../bin/tsdbd-load .
	bin/tsdbd-load cold -servers tsdbd=bin/tsdbd -scale $(SCALE) -report $(REPORT)

cluster-chaos: ## a cluster in 100 rounds of kills, stops, power cuts, full disks, disks that hang, damaged files, old copies of directories, wrong clocks and cuts of the network; as root, half an hour
	TSDBD_SEED=$${TSDBD_SEED:-random} $(CLUSTER) -run '^TestChaos$$' -chaos-rounds=100 -chaos-longest=15s

cluster-long: ## the other tests of clusters, longer than make test has them, half an hour
	$(CLUSTER) -skip '^Test(Chaos|Rejoin|FlippedLog)$$' -failover-rounds=20 -hang-time=40s -strong-time=2m -position-reads=10000 \
		-leak-rounds=20 -behind-mib=200 -slow-time=10s -upgrade

cluster-five: ## five nodes, of which two fail at a time, by kills, stops, power cuts, full disks, disks that hang and cuts of the network; as root
	$(CLUSTER) -nodes=5 -run '^Test(Chaos|Failover|DeposedLeader|Founding|LeaderWithoutSpace|MostDisksFull|OneNodeIsBack|Rejoin|RollingRestart|StrongReads|PositionReads)$$' -chaos-rounds=50

cluster-rejoin: ## a node copies 50 million rows under load and is killed 20 times meanwhile
	$(CLUSTER) -run '^TestRejoin$$' -rejoin-rows=50000000 -rejoin-kills=20

cluster-flips: ## every 97th byte of the log of a node is flipped, an hour
	$(CLUSTER) -run '^TestFlippedLog$$' -flip-count=0

cluster-balancers: ## HAProxy and nginx with the configurations of docs/cluster.md before three nodes that are killed
	$(CLUSTER) -run '^TestBalancers$$' -balancers

cluster-bench: ## a cluster against a single server on an idle machine, into docs/bench/cluster.md
	$(CLUSTER) -run '^TestBench$$' -bench-runs=3 -bench-report=$(CURDIR)/docs/bench/cluster.md

clients: ## real clients against the server, a table at the end; client-NAME is one
	cd clients && go vet ./... && go test -count=1 -timeout 30m ./...
	cd clients/tsm1judge && go vet ./... && go test -count=1 ./...

clients-follower: ## the same against a node of a cluster that follows
	cd clients && go test -count=1 -timeout 30m -follower

.PHONY: clients-s3
clients-s3: ## a cold store in a real server with the API of S3, versitygw, which is built first from its module into bin
	GOBIN=$(CURDIR)/bin CGO_ENABLED=0 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
	cd clients && PATH="$(CURDIR)/bin:$$PATH" go test -count=1 -v -run '^TestVersitygw$$'

client-compliance: ## the queries of the PromQL compliance tester; QUERIES is its promql-test-queries.yml
	cd clients && TSDBD_PROMQL_QUERIES=$(abspath $(QUERIES)) go test -count=1 -v -run '^TestCompliance$$' ./promjudge

client-%: ## of examples telegraf influxshell gov1 gov2 python pythonlibrary node parquet prometheus prometheusroundtrip prometheusblocks receiver promtool vmalert grafana migration migrationfiles servermigration influxdb2 victoriametrics
	cd clients && go test -count=1 -timeout 30m -run '(?i)^Test$*$$'

docs-test: ## every command of README.md and docs against a server, with what it prints
	go test -count=1 -v -run '^TestDocs' ./internal/testkit/apptest

dist: ## what is handed out, in dist/: static binaries, packages, lists of modules, checksums
	.ci/dist

dist-again: ## build dist/ again elsewhere, with an empty cache: all bytes are the same
	.ci/dist-again

release: ## a release of VERSION in dist/, with notes, signed if the environment has a key
	VERSION=$(VERSION) .ci/release

licenses: ## the licenses of all that the program is linked with; fails for one that nobody has looked at
	go run .ci/licenses.go >/dev/null

chart: ## the manifests for Kubernetes, rendered by Helm and checked against its types
	cd packaging/helm/check && go vet ./... && go test -count=1 ./...

dist-test: dist ## install the package over this machine's files, without changing them
	.ci/dist-test

.PHONY: vuln
vuln: ## look for known holes in what the program calls; asks vuln.go.dev
	go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

ui: ## build the page for browsers into web/dist, with node
	cd web/ui && npm ci --no-audit --no-fund && npm run build

ui-check: ## the page's own tests, and whether web/dist is what web/ui builds
	cd web/ui && npm ci --no-audit --no-fund && npm test && npm run check

browser: ## the page in a real Chromium, with node; skips without them
	cd web/ui && npm ci --no-audit --no-fund
	go test -count=1 -timeout 30m -v ./internal/testkit/browsertest

golden: ## regenerate golden files; look at the diff before you commit it
	go test $$(git grep -l 'Bool("update"' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|') -update

cover: ## coverage by function
	go test -coverprofile=cover.out ./...
	go tool cover -func=cover.out | tail -n 1

run: ## run the server on 127.0.0.1:8086 with data in ./data
	go run ./cmd/tsdbd

cluster: build ## three nodes on 127.0.0.1 with a light load, and a page of what happens
	go build -o bin/clusterdemo ./internal/testkit/clusterdemo
	bin/clusterdemo

help: ## this list
	@grep -E '^[a-z0-9%-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12
