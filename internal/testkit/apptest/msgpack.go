package apptest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// decodeMsgpack decodes one value: numbers become json.Number, times "time
// 2006-01-02T15:04:05Z".
func decodeMsgpack(b []byte) (v any, rest []byte, err error) {
	if v, rest, err = msgp.ReadIntfBytes(b); err == nil {
		v, err = plainMsgpack(v)
	}
	return v, rest, err
}

func plainMsgpack(v any) (_ any, err error) {
	switch v := v.(type) {
	case nil, bool, string:
		return v, nil
	case int64, uint64:
		return json.Number(fmt.Sprint(v)), nil
	case float64:
		text, err := json.Marshal(v)
		return json.Number(text), err
	case time.Time:
		return "time " + v.UTC().Format(time.RFC3339Nano), nil
	case []any:
		for i := range v {
			if v[i], err = plainMsgpack(v[i]); err != nil {
				return nil, err
			}
		}
		return v, nil
	case map[string]any:
		for key := range v {
			if v[key], err = plainMsgpack(v[key]); err != nil {
				return nil, err
			}
		}
		return v, nil
	}
	return nil, fmt.Errorf("msgpack: a %T", v)
}
