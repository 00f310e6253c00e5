package remote

import (
	"math"

	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/proto"
)

// parseSample reads a Sample message of any version.
func parseSample(b []byte) (s prom.Sample, err error) {
	r := proto.Read(b)
	for r.Next() {
		switch r.Field {
		case 1:
			s.Value = math.Float64frombits(r.Num)
		case 2:
			s.Time = int64(r.Num)
		case 3:
			s.Start = int64(r.Num)
		}
	}
	return s, r.Err
}

// appendLabel reads a label and appends it to tags. Its texts are parts of b.
func appendLabel(tags model.Tags, b []byte) (model.Tags, error) {
	var l model.Tag
	r := proto.Read(b)
	for r.Next() {
		switch r.Field {
		case 1:
			l.Key = proto.Text(r.Data)
		case 2:
			l.Value = proto.Text(r.Data)
		}
	}
	return append(tags, l), r.Err
}
