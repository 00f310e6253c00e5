package opentsdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"tsdbd/internal/body"
	"tsdbd/model"
	"tsdbd/services/input"
)

// MaxBodyBytes bounds the body of a POST, as received and decompressed.
const MaxBodyBytes = 25_000_000

// putPoint is a point as JSON has it.
type putPoint struct {
	Metric    string            `json:"metric"`
	Timestamp json.Number       `json:"timestamp"`
	Value     json.Number       `json:"value"`
	Tags      map[string]string `json:"tags"`
}

// DefaultBodyMemory bounds the bodies held at a time, in bytes.
const DefaultBodyMemory = 4 * MaxBodyBytes

// chunkPoints is the number of points that are decoded and written at a time: small
// points take much more memory decoded than as JSON.
const chunkPoints = 5000

// eachChunk decodes a point or an array of points and calls f with chunkPoints at a
// time. f must not keep the slice. Numbers may be in quotes.
func eachChunk(body []byte, f func([]input.Point) error) error {
	body = bytes.TrimLeft(body, " \t\r\n")
	d := json.NewDecoder(bytes.NewReader(body))
	array := len(body) > 0 && body[0] == '['
	if array {
		if _, err := d.Token(); err != nil {
			return err
		}
	}
	var points []input.Point
	for n := 0; !array && n == 0 || array && d.More(); n++ {
		var p putPoint
		if err := d.Decode(&p); err != nil {
			return err
		}
		point, err := p.point()
		if err != nil {
			return fmt.Errorf("point %d: %w", n, err)
		}
		if points = append(points, point); len(points) == chunkPoints {
			if err := f(points); err != nil {
				return err
			}
			points = points[:0]
		}
	}
	if array {
		if _, err := d.Token(); err != nil {
			return err
		}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something stands behind the points")
	}
	if len(points) == 0 {
		return nil
	}
	return f(points)
}

func (p *putPoint) point() (input.Point, error) {
	if p.Metric == "" {
		return input.Point{}, errors.New("no metric")
	}
	stamp, err := p.Timestamp.Int64()
	if err != nil {
		return input.Point{}, fmt.Errorf("timestamp %q is no integer", p.Timestamp)
	}
	at, ok := parseTime(stamp)
	if !ok {
		return input.Point{}, fmt.Errorf("timestamp %q is out of range", p.Timestamp)
	}
	value, err := strconv.ParseFloat(p.Value.String(), 64)
	if err != nil {
		return input.Point{}, fmt.Errorf("value %q is no number", p.Value)
	}
	out := input.Point{Measurement: p.Metric, Time: at, Fields: []input.Field{{Key: "value", Value: value}}}
	for k, v := range p.Tags {
		out.Tags = append(out.Tags, model.Tag{Key: k, Value: v})
	}
	return out, nil
}

// ServeHTTP answers POST /api/put, and /api/metadata/put, which has no effect.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	switch {
	case r.URL.Path != "/api/put" && r.URL.Path != "/api/metadata/put":
		answer(w, http.StatusNotFound, errors.New("not found"))
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		answer(w, http.StatusMethodNotAllowed, errors.New("method not allowed"))
	case r.URL.Path == "/api/metadata/put":
		w.WriteHeader(http.StatusNoContent)
	default:
		status, err := s.put(w, r)
		if err != nil {
			answer(w, status, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// put stores the points of a body. They are durable when it returns nil. If the body
// is malformed, the points before the error may be stored.
func (s *Service) put(w http.ResponseWriter, r *http.Request) (status int, err error) {
	b, err := s.bodies.Read(w, r, MaxBodyBytes)
	switch {
	case errors.Is(err, body.ErrTooLarge):
		return http.StatusRequestEntityTooLarge, err
	case errors.Is(err, body.ErrBusy):
		return http.StatusServiceUnavailable, err
	case err != nil:
		return http.StatusBadRequest, err
	}
	defer b.Release()
	s.batcher.Counts().Bytes.Add(int64(b.Len()))
	var bad, failed error
	err = eachChunk(b.Bytes(), func(points []input.Point) error {
		var reason error
		reason, failed = s.batcher.WritePoints(r.Context(), points)
		if bad == nil {
			bad = reason
		}
		return failed
	})
	switch {
	case failed != nil:
		return http.StatusServiceUnavailable, failed
	case err != nil:
		s.batcher.Counts().BadPoints.Add(1)
		return http.StatusBadRequest, err
	}
	return http.StatusBadRequest, bad
}

// answer answers with an error in OpenTSDB's form.
func answer(w http.ResponseWriter, status int, err error) {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"code": status, "message": err.Error()}}) // cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone if this fails
}
