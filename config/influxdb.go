package config

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
)

// influxKey says how a key of an influxdb.conf is treated that does not exist here.
type influxKey struct {
	to      string // our key of the same meaning
	ignored string // or why it has no effect
	only    string // the one value that can be without effect, if not all
}

const (
	inOneDirectory = "everything is kept below data.dir"
	ownCompaction  = "merges are scheduled by themselves, see data.compact-throughput"
	ownIndex       = "there is one kind of index, in files"
	ownLog         = "the log has no such switch, see log.level"
	noFlux         = "Flux is not supported"
	ownCluster     = "nodes of a cluster share one log, see cluster.join"
	alwaysChecked  = "that is always so when logins are on"
)

// influxKeys are the keys of InfluxDB 1.5 to 1.12, and of InfluxDB Enterprise, that have another name here,
// or none. A name without a dot is a whole section.
var influxKeys = map[string]influxKey{
	"reporting-enabled":  {ignored: "nothing is reported to anybody"},
	"reporting-disabled": {ignored: "nothing is reported to anybody"},
	"bind-address":       {ignored: "backup and restore go by http.bind-address"},
	"hostname":           {ignored: "the address of a node is cluster.advertise"},
	"join":               {ignored: "the nodes of a cluster are cluster.join"},
	"gossip-frequency":   {ignored: ownCluster},

	"meta.dir":             {ignored: inOneDirectory},
	"meta.logging-enabled": {ignored: ownLog},

	"data.wal-dir":                                         {ignored: inOneDirectory},
	"data.wal-fsync-delay":                                 {to: "data.wal-sync-interval"},
	"data.cache-max-memory-size":                           {to: "data.cache-max-memory"},
	"data.cache-snapshot-memory-size":                      {to: "data.flush-size"},
	"data.cache-snapshot-write-cold-duration":              {to: "data.flush-idle"},
	"data.compact-full-write-cold-duration":                {to: "data.compact-after"},
	"data.compact-throughput-burst":                        {ignored: ownCompaction},
	"data.max-concurrent-compactions":                      {ignored: ownCompaction},
	"data.max-concurrent-deletes":                          {ignored: ownCompaction},
	"data.index-version":                                   {ignored: ownIndex},
	"data.max-index-log-file-size":                         {ignored: ownIndex},
	"data.series-id-set-cache-size":                        {ignored: ownIndex},
	"data.trace-logging-enabled":                           {ignored: ownLog},
	"data.query-log-enabled":                               {ignored: "queries are not logged before they run, see query.log-queries-after and http.access-log"},
	"data.skip-field-size-validation":                      {ignored: "the length of a line is bounded by http.max-body-size"},
	"data.strict-error-handling":                           {ignored: "errors are always strict"},
	"data.tsm-use-madv-willneed":                           {ignored: "the kernel reads ahead by itself"},
	"data.aggressive-points-per-block":                     {ignored: ownCompaction},
	"data.tar-stream-buffer-size":                          {ignored: "backups are no tar streams"},
	"data.max-concurrent-optimized-compactions":            {ignored: ownCompaction},
	"data.series-file-max-concurrent-snapshot-compactions": {ignored: ownCompaction},
	"data.ingress-metric-by-measurement-enabled":           {ignored: "see tsdbd inspect report and /metrics"},
	"data.ingress-metric-by-login-enabled":                 {ignored: "see /metrics"},

	"coordinator.max-concurrent-queries": {to: "query.max-concurrent-queries"},
	"coordinator.query-timeout":          {to: "query.query-timeout"},
	"coordinator.log-queries-after":      {to: "query.log-queries-after"},
	"coordinator.max-select-point":       {to: "query.max-select-point"},
	"coordinator.max-select-series":      {to: "query.max-select-series"},
	"coordinator.max-select-buckets":     {to: "query.max-select-buckets"},
	"coordinator.write-timeout":          {to: "http.write-timeout"},
	"coordinator.log-timedout-queries":   {ignored: "see query.log-queries-after"},
	"coordinator.termination-query-log":  {ignored: "see query.log-queries-after"},

	// InfluxDB Enterprise
	"cluster.max-concurrent-queries":     {to: "query.max-concurrent-queries"},
	"cluster.query-timeout":              {to: "query.query-timeout"},
	"cluster.log-queries-after":          {to: "query.log-queries-after"},
	"cluster.max-select-point":           {to: "query.max-select-point"},
	"cluster.max-select-series":          {to: "query.max-select-series"},
	"cluster.max-select-buckets":         {to: "query.max-select-buckets"},
	"cluster.write-timeout":              {to: "http.write-timeout"},
	"cluster.allow-out-of-order":         {ignored: "all nodes apply writes in one order"},
	"cluster.allow-out-of-order-writes":  {ignored: "all nodes apply writes in one order"},
	"cluster.dial-timeout":               {ignored: ownCluster},
	"cluster.pool-max-idle-time":         {ignored: ownCluster},
	"cluster.pool-max-idle-streams":      {ignored: ownCluster},
	"cluster.shard-reader-timeout":       {ignored: "a query reads its own node"},
	"cluster.cluster-tracing":            {ignored: ownLog},
	"cluster.log-timedout-queries":       {ignored: "see query.log-queries-after"},
	"cluster.termination-query-log":      {ignored: "see query.log-queries-after"},
	"cluster.https-enabled":              {ignored: "see cluster.certificate and cluster.ca"},
	"cluster.https-certificate":          {ignored: "see cluster.certificate and cluster.ca"},
	"cluster.https-private-key":          {ignored: "see cluster.certificate and cluster.ca"},
	"cluster.https-insecure-certificate": {ignored: "see cluster.certificate and cluster.ca"},
	"cluster.https-insecure-tls":         {ignored: "see cluster.certificate and cluster.ca"},
	"meta.meta-internal-shared-secret":   {ignored: "see cluster.secret"},
	"meta.internal-shared-secret":        {ignored: "see cluster.secret"},
	"enterprise":                         {ignored: "there is no license to enter"},
	"hinted-handoff":                     {ignored: ownCluster},
	"anti-entropy":                       {ignored: "tsdbd cluster verify compares the nodes"},

	"query.use-tiers": {to: "query.use-downsamples"}, // the former name

	"shard-precreation": {ignored: "the next shard group is always made ahead of its time"},

	"http.enabled":                    {ignored: "the server is its HTTP API", only: "true"},
	"http.log-enabled":                {to: "http.access-log"},
	"http.flux-enabled":               {ignored: noFlux, only: "false"},
	"http.flux-log-enabled":           {ignored: noFlux},
	"http.flux-testing":               {ignored: noFlux},
	"http.pprof-auth-enabled":         {ignored: alwaysChecked},
	"http.debug-pprof-enabled":        {ignored: "see http.pprof-enabled", only: "false"},
	"http.prom-read-auth-enabled":     {ignored: alwaysChecked},
	"http.https-insecure-certificate": {ignored: "the permissions of the certificate are not looked at"},
	"http.user-query-bytes-enabled":   {ignored: "see /metrics"},
	"http.shared-socket":              {ignored: "it never had an effect"},

	"logging.level":         {to: "log.level"},
	"logging.format":        {to: "log.format"},
	"logging.suppress-logo": {ignored: "there is no logo"},

	"continuous_queries.query-stats-enabled": {ignored: "see SHOW STATS"},

	// Keys that tsdbd had, most of them from InfluxDB.
	"retention.day-shards-from":     {ignored: "policies shorter than 2 days get shard groups of an hour, see SHARD DURATION"},
	"retention.week-shards-from":    {ignored: "policies of 180 days and more get shard groups of a week, see SHARD DURATION"},
	"udp.writers":                   {ignored: "batches are written one after the other, in their order"},
	"graphite.consistency-level":    {ignored: "points are durable before the next batch"},
	"opentsdb.consistency-level":    {ignored: "points are durable before the next batch"},
	"http.suppress-write-log":       {ignored: "see http.access-log-status-filters"},
	"http.write-tracing":            {ignored: "see http.access-log"},
	"subscriber.total-buffer-bytes": {ignored: "what waits for a subscription is bounded by 64 MiB and subscriber.write-buffer-size"},

	"ifql":            {ignored: noFlux},
	"flux-controller": {ignored: noFlux},
}

// influxValues are values that have another name here.
var influxValues = map[string]map[string]string{
	"logging.format": {"logfmt": "text"},
}

// Note is a remark on a key of an influxdb.conf, or on a variable of InfluxDB.
type Note struct {
	Key, Text string
	Level     slog.Level // Warn if the key has no effect
}

// readInfluxKey takes a key of an influxdb.conf from the document; ok is false
// if it is none.
func (c *Config) readInfluxKey(key toml.Key, document map[string]any, m toml.MetaData) (n Note, ok bool, err error) {
	name := key.String()
	k, ok := influxKeys[name]
	for i := len(key) - 1; !ok && i > 0; i-- {
		k, ok = influxKeys[key[:i].String()]
	}
	if !ok {
		// The header of a section is undecoded too; its keys come by themselves.
		for name := range influxKeys {
			ok = ok || strings.HasPrefix(name, key.String()+".")
		}
		return Note{}, ok, nil
	}
	var value any = document
	for _, part := range key {
		switch table := value.(type) {
		case map[string]any:
			value = table[part]
		case []map[string]any: // several sections of one name, which have no key with a value of its own
			value = nil
		default:
			return Note{}, false, nil
		}
	}
	text := fmt.Sprint(value)
	_, isTable := value.(map[string]any)
	switch {
	case isTable:
		return Note{}, true, nil
	case k.to != "":
		return c.readInfluxValue(name, text, k.to, m)
	case k.only != "" && text != k.only:
		return Note{}, true, fmt.Errorf("key %s cannot be %s: %s", name, text, k.ignored)
	case k.ignored == "":
		return Note{}, true, nil
	}
	return Note{name, "has no effect: " + k.ignored, slog.LevelWarn}, true, nil
}

// readInfluxValue sets our key to the value of InfluxDB's.
func (c *Config) readInfluxValue(name, text, to string, m toml.MetaData) (Note, bool, error) {
	if m.IsDefined(strings.Split(to, ".")...) {
		return Note{}, true, fmt.Errorf("key %s is the same as %s: give one of them", name, to)
	}
	if text == "" {
		return Note{}, true, nil
	}
	if other := influxValues[name][text]; other != "" {
		text = other
	}
	for _, s := range c.Settings() {
		if s.Key == to {
			if err := setField(s.Value, text); err != nil {
				return Note{}, true, fmt.Errorf("key %s: %w", name, err)
			}
		}
	}
	return Note{name, "is taken for " + to, slog.LevelInfo}, true, nil
}

// influxVariables returns a note on each variable of the environment that sets a
// key in an InfluxDB, or in an earlier tsdbd, and nothing here: a server that comes
// after one must not be open because nobody noticed that.
func (c *Config) influxVariables(environ []string) (notes []Note) {
	ours := map[string]string{} // InfluxDB's variable -> ours, or why there is none
	variable := func(key string) string { return strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key)) }
	for _, s := range c.Settings() {
		ours[influxPrefix+strings.TrimPrefix(s.Env, envPrefix)] = "set " + s.Env
	}
	for key, k := range influxKeys {
		ours[influxPrefix+variable(key)] = "it would have no effect: " + k.ignored
		ours[envPrefix+variable(key)] = "it has no effect: " + k.ignored
		if k.to != "" {
			ours[influxPrefix+variable(key)] = "set " + envPrefix + variable(k.to)
			ours[envPrefix+variable(key)] = "set " + envPrefix + variable(k.to)
		}
	}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if what, ok := ours[numbered.ReplaceAllString(name, "_")]; ok {
			notes = append(notes, Note{name, "is not read: " + what, slog.LevelWarn})
		}
	}
	return notes
}

// numbered is the number of a section in a variable, as in TSDBD_UDP_0_WRITERS.
var numbered = regexp.MustCompile(`_[0-9]+_`)

// influxPrefix begins the variables that an InfluxDB reads.
const influxPrefix = "INFLUXDB_"
