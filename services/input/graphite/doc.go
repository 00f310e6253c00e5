// Package graphite receives Graphite's plain text protocol over TCP or UDP: lines
// "path value [time]" with the time in seconds. Templates turn paths into
// measurements, tags and fields, as in InfluxDB 1.x:
//
//	[filter] template [tag=value,...]
//
// A filter is a path in which parts may be "*". At every part an exact match is
// preferred to "*", without backtracking. The words of a template match the parts of
// a path. The words "measurement" and "field" and the name of a tag match one part. An
// empty word skips a part. "measurement*" and "field*" match all remaining parts. The
// separator joins parts with the same word. If no filter matches, the path is the
// measurement. A point without a field word has the field "value".
//
// Tags in the form of Graphite 1.1, path;tag=value;tag=value, become tags. InfluxDB
// 1.x makes them part of the measurement.
package graphite
