// Package graphite receives Graphite's plain text protocol over TCP or UDP:
// lines "path value [time]", time in seconds. Templates turn paths into
// measurements, tags and fields as InfluxDB 1.x does:
//
//	[filter] template [tag=value,...]
//
// A filter is a path of which parts may be "*"; at every part the exact name
// goes before "*" and there is no way back. The words of a template stand for the parts
// of a path: "measurement", "field" or the name of a tag take one part, nothing
// skips one, "measurement*" and "field*" take all that are left. What comes
// more than once is joined by the separator. A path that no filter fits is
// the measurement as it is, and a point without a field word has the field
// "value".
//
// Tags in Graphite 1.1's form, path;tag=value;tag=value, are tags; InfluxDB 1.x
// takes them for a part of the path.
package graphite
