// Package collectd receives collectd's binary network protocol over UDP.
//
// A packet is a sequence of parts. Texts and times are valid until the next part of
// their kind. A part with values is one point in time of a plugin, and types.db names
// the values of a type. By default each value becomes a point of the measurement
// "plugin_name" with the field "value". With Join the values become one point of the
// measurement "plugin" with a field for each name. The tags are host, instance, type
// and type_instance, unless they are empty. As in InfluxDB 1.x, all values become
// floats. Values that are not a number are dropped and counted.
//
// Packets may be signed (HMAC-SHA-256) or encrypted (AES-256 in output feedback mode,
// with SHA-1 inside, as collectd defines it) by a user of the auth file. Level is the
// protection that the decoder requires; it skips parts with less.
//
// The decoder is not that of module collectd.org, which InfluxDB uses. Its version
// 0.3.0 returns the values of a signed packet twice if no signature is required,
// drops types that types.db does not name and values of kind ABSOLUTE, compares
// signatures in variable time, and lets any sender write lines to the log.
//
// The decoder bounds every read by the part, and a part by the packet. It keeps
// nothing of a packet.
package collectd
