package otlp

import "google.golang.org/protobuf/encoding/protowire"

// kind is how a field of a message is encoded.
type kind uint8

const (
	kindText     kind = iota
	kindBytes         // base64 in JSON
	kindHex           // bytes, hexadecimal in JSON
	kindBool          // varint
	kindVarint        // integers of 32 and 64 bits
	kindZigzag        // sint32
	kindFixed         // fixed64 and sfixed64
	kindDouble        // fixed64
	kindTemporal      // an enum
	kindMessage
)

// member is a field of a message: its number, its kind, and the message that it has.
type member struct {
	number  protowire.Number
	kind    kind
	list    bool
	message string
}

// rootMessage is the message of a request.
const rootMessage = "ExportMetricsServiceRequest"

// schema has the fields of the messages by their names in JSON, as far as they are
// used.
var schema = map[string]map[string]member{
	rootMessage: {
		"resourceMetrics": {1, kindMessage, true, "ResourceMetrics"},
	},
	"ResourceMetrics": {
		"resource":     {1, kindMessage, false, "Resource"},
		"scopeMetrics": {2, kindMessage, true, "ScopeMetrics"},
	},
	"Resource": {
		"attributes": {1, kindMessage, true, "KeyValue"},
	},
	"ScopeMetrics": {
		"scope":     {1, kindMessage, false, "InstrumentationScope"},
		"metrics":   {2, kindMessage, true, "Metric"},
		"schemaUrl": {3, kindText, false, ""},
	},
	"InstrumentationScope": {
		"name":       {1, kindText, false, ""},
		"version":    {2, kindText, false, ""},
		"attributes": {3, kindMessage, true, "KeyValue"},
	},
	"Metric": {
		"name":                 {1, kindText, false, ""},
		"description":          {2, kindText, false, ""},
		"unit":                 {3, kindText, false, ""},
		"gauge":                {gauge, kindMessage, false, "Gauge"},
		"sum":                  {sum, kindMessage, false, "Sum"},
		"histogram":            {histogram, kindMessage, false, "Histogram"},
		"exponentialHistogram": {exponential, kindMessage, false, "ExponentialHistogram"},
		"summary":              {summary, kindMessage, false, "Summary"},
	},
	"Gauge": {
		"dataPoints": {1, kindMessage, true, "NumberDataPoint"},
	},
	"Sum": {
		"dataPoints":             {1, kindMessage, true, "NumberDataPoint"},
		"aggregationTemporality": {2, kindTemporal, false, ""},
		"isMonotonic":            {3, kindBool, false, ""},
	},
	"Histogram": {
		"dataPoints":             {1, kindMessage, true, "HistogramDataPoint"},
		"aggregationTemporality": {2, kindTemporal, false, ""},
	},
	"ExponentialHistogram": {
		"dataPoints":             {1, kindMessage, true, "ExponentialHistogramDataPoint"},
		"aggregationTemporality": {2, kindTemporal, false, ""},
	},
	"Summary": {
		"dataPoints": {1, kindMessage, true, "SummaryDataPoint"},
	},
	"NumberDataPoint": {
		"startTimeUnixNano": {2, kindFixed, false, ""},
		"timeUnixNano":      {3, kindFixed, false, ""},
		"asDouble":          {4, kindDouble, false, ""},
		"exemplars":         {5, kindMessage, true, "Exemplar"},
		"asInt":             {6, kindFixed, false, ""},
		"attributes":        {7, kindMessage, true, "KeyValue"},
		"flags":             {8, kindVarint, false, ""},
	},
	"HistogramDataPoint": {
		"startTimeUnixNano": {2, kindFixed, false, ""},
		"timeUnixNano":      {3, kindFixed, false, ""},
		"count":             {4, kindFixed, false, ""},
		"sum":               {5, kindDouble, false, ""},
		"bucketCounts":      {6, kindFixed, true, ""},
		"explicitBounds":    {7, kindDouble, true, ""},
		"exemplars":         {8, kindMessage, true, "Exemplar"},
		"attributes":        {9, kindMessage, true, "KeyValue"},
		"flags":             {10, kindVarint, false, ""},
	},
	"ExponentialHistogramDataPoint": {
		"attributes":        {1, kindMessage, true, "KeyValue"},
		"startTimeUnixNano": {2, kindFixed, false, ""},
		"timeUnixNano":      {3, kindFixed, false, ""},
		"count":             {4, kindFixed, false, ""},
		"sum":               {5, kindDouble, false, ""},
		"scale":             {6, kindZigzag, false, ""},
		"zeroCount":         {7, kindFixed, false, ""},
		"positive":          {8, kindMessage, false, "Buckets"},
		"negative":          {9, kindMessage, false, "Buckets"},
		"flags":             {10, kindVarint, false, ""},
		"exemplars":         {11, kindMessage, true, "Exemplar"},
		"zeroThreshold":     {14, kindDouble, false, ""},
	},
	"Buckets": {
		"offset":       {1, kindZigzag, false, ""},
		"bucketCounts": {2, kindVarint, true, ""},
	},
	"SummaryDataPoint": {
		"startTimeUnixNano": {2, kindFixed, false, ""},
		"timeUnixNano":      {3, kindFixed, false, ""},
		"count":             {4, kindFixed, false, ""},
		"sum":               {5, kindDouble, false, ""},
		"quantileValues":    {6, kindMessage, true, "ValueAtQuantile"},
		"attributes":        {7, kindMessage, true, "KeyValue"},
		"flags":             {8, kindVarint, false, ""},
	},
	"ValueAtQuantile": {
		"quantile": {1, kindDouble, false, ""},
		"value":    {2, kindDouble, false, ""},
	},
	"Exemplar": {
		"timeUnixNano":       {2, kindFixed, false, ""},
		"asDouble":           {3, kindDouble, false, ""},
		"spanId":             {4, kindHex, false, ""},
		"traceId":            {5, kindHex, false, ""},
		"asInt":              {6, kindFixed, false, ""},
		"filteredAttributes": {7, kindMessage, true, "KeyValue"},
	},
	"KeyValue": {
		"key":   {1, kindText, false, ""},
		"value": {2, kindMessage, false, "AnyValue"},
	},
	"AnyValue": {
		"stringValue": {stringValue, kindText, false, ""},
		"boolValue":   {boolValue, kindBool, false, ""},
		"intValue":    {intValue, kindVarint, false, ""},
		"doubleValue": {doubleValue, kindDouble, false, ""},
		"arrayValue":  {arrayValue, kindMessage, false, "ArrayValue"},
		"kvlistValue": {listValue, kindMessage, false, "KeyValueList"},
		"bytesValue":  {bytesValue, kindBytes, false, ""},
	},
	"ArrayValue": {
		"values": {1, kindMessage, true, "AnyValue"},
	},
	"KeyValueList": {
		"values": {1, kindMessage, true, "KeyValue"},
	},
}
