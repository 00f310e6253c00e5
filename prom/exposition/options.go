package exposition

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tsdbd/model"
	"tsdbd/prom"
)

// Options say what a text does not.
type Options struct {
	Now     int64      // ms, the time of samples without one; it may be prom.NoTime
	Seconds bool       // times are seconds, as in OpenMetrics, and not milliseconds
	Extra   model.Tags // labels of all series, in place of those with the same name
}

// mediaOpenMetrics is the type of texts whose times are seconds.
const mediaOpenMetrics = "application/openmetrics-text"

// ParseOptions returns the options of a request: of its path behind the route, which is
// empty or that of a Pushgateway, of its parameter timestamp, and of its Content-Type.
func ParseOptions(path string, q url.Values, contentType string) (*Options, error) {
	media, _, _ := mime.ParseMediaType(contentType)
	opt := &Options{Now: prom.NoTime, Seconds: media == mediaOpenMetrics}
	if text := q.Get("timestamp"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms == prom.NoTime {
			return nil, fmt.Errorf("timestamp must be milliseconds since 1970, not %q", text)
		}
		opt.Now = ms
	}
	var err error
	opt.Extra, err = groupingLabels(strings.Trim(path, "/"))
	return opt, err
}

// groupingLabels returns the labels in the path of a Pushgateway:
// metrics/job/JOB/NAME/VALUE... A name that ends in @base64 has its value in base64 of
// URLs.
func groupingLabels(path string) (tags model.Tags, err error) {
	if path == "" || path == "metrics" {
		return nil, nil
	}
	rest, ok := strings.CutPrefix(path, "metrics/")
	parts := strings.Split(rest, "/")
	if !ok || len(parts)%2 != 0 {
		return nil, errors.New("the path must be metrics/job/JOB and more pairs of a label and its value")
	}
	for i := 0; i < len(parts); i += 2 {
		name, encoded := strings.CutSuffix(parts[i], "@base64")
		value := parts[i+1]
		if encoded {
			b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(value, "="))
			if err != nil {
				return nil, fmt.Errorf("the value of the label %s in the path is not base64", name)
			}
			value = string(b)
		}
		if name == "" || value == "" && !encoded {
			return nil, errors.New("a label in the path has no name or no value")
		}
		tags = append(tags, model.Tag{Key: name, Value: value})
	}
	return tags, nil
}

// time reads the time of a sample.
func (o *Options) time(word []byte) (ms int64, err error) {
	if len(word) == 0 {
		return o.Now, nil
	}
	if !o.Seconds {
		if ms, err = strconv.ParseInt(string(word), 10, 64); err != nil || ms == prom.NoTime {
			return 0, fmt.Errorf("%.50q is no time in milliseconds", word)
		}
		return ms, nil
	}
	seconds, err := strconv.ParseFloat(string(word), 64)
	if err != nil || !(math.Abs(seconds) <= float64(model.MaxTime/int64(time.Second))) {
		return 0, fmt.Errorf("%.50q is no time in seconds", word)
	}
	return int64(math.Round(seconds * 1000)), nil
}
