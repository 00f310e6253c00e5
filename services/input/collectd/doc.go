// Package collectd receives collectd's binary network protocol over UDP.
//
// A packet is parts: texts and times that hold until they are set anew, and
// values, each list a point in time of a plugin's. types.db names the values of
// a type. With Split every value is a point of its own in the measurement
// "plugin_name", field "value"; without, a list is a point of the measurement
// "plugin" with a field for each name. Tags are host, instance, type and
// type_instance, where there is something in them. All values become floats, as
// in InfluxDB 1.x; those that are not a number are left out.
//
// Packets may be signed (HMAC-SHA-256) or encrypted (AES-256 in output feedback
// mode, with SHA-1 inside, as collectd defines them) by a user of the auth file.
// With Level Sign or Encrypt what is less protected is not read.
//
// The decoder bounds every read by the part, a part by the packet, and keeps
// nothing of a packet.
package collectd
