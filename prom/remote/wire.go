package remote

import (
	"math"

	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/proto"
)

// parseSample reads a Sample message of any version.
func parseSample(b proto.Message) (s prom.Sample, err error) {
	var m proto.Member
	for {
		more, err := b.Next(&m)
		if !more {
			return s, err
		}
		switch m.Field {
		case 1:
			s.Value = math.Float64frombits(m.Num)
		case 2:
			s.Time = int64(m.Num)
		case 3:
			s.Start = int64(m.Num)
		}
	}
}

// appendLabel reads a label and appends it to tags. Its texts are parts of b.
func appendLabel(tags model.Tags, b proto.Message) (model.Tags, error) {
	var l model.Tag
	var m proto.Member
	for {
		more, err := b.Next(&m)
		switch {
		case !more:
			return append(tags, l), err
		case m.Field == 1:
			l.Key = proto.Text(m.Data)
		case m.Field == 2:
			l.Value = proto.Text(m.Data)
		}
	}
}
