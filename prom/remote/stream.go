package remote

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/chunk"
	"tsdbd/prom/proto"
)

// maxForeignFrame bounds a frame of another server, which has the chunks of one series:
// Prometheus makes frames of 1 MiB by default.
const maxForeignFrame = 64 << 20

// NewQuery returns the query of the series of a metric that match also, within times in
// milliseconds.
func NewQuery(metric string, start, end int64, also []*labels.Matcher) Query {
	name := labels.MustNewMatcher(labels.MatchEqual, prom.NameLabel, metric) // only regexes fail
	return Query{Start: start, End: end, Matchers: append([]*labels.Matcher{name}, also...)}
}

// AppendReadRequest appends the message of a request for frames of chunks.
func AppendReadRequest(dst []byte, q Query) []byte {
	b := appendNumber(nil, 1, uint64(q.Start))
	b = appendNumber(b, 2, uint64(q.End))
	for _, m := range q.Matchers {
		one := appendNumber(nil, 1, uint64(m.Type)) // the numbers are those of the message
		one = appendMessage(one, 2, []byte(m.Name))
		b = appendMessage(b, 3, appendMessage(one, 3, []byte(m.Value)))
	}
	return appendNumber(appendMessage(dst, 1, b), 2, typeChunks)
}

// Stream reads the frames of an answer to remote read as rows. The series come in the order
// of the answer. Chunks of a series may overlap in time, and so may its runs.
type Stream struct {
	in     *bufio.Reader
	rows   *chunk.Rows
	frame  []byte
	labels labels.ScratchBuilder
	tags   model.Tags
	chunks [][]byte // of the present series
}

var _ rows.Reader = (*Stream)(nil)

// NewStream returns the rows of an answer.
func NewStream(r io.Reader, opt chunk.Options) *Stream {
	return &Stream{in: bufio.NewReader(r), rows: chunk.New(opt)}
}

// Close implements rows.Reader. The caller closes the answer.
func (s *Stream) Close() error { return nil }

// Next implements rows.Reader. An answer that ends within a frame, or has damage, is an
// error.
func (s *Stream) Next(ctx context.Context) (*rows.Run, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		run, err := s.rows.Next()
		if err != nil {
			return nil, fmt.Errorf("read chunk of %s: %w", s.rows.Name(), err)
		}
		if run != nil {
			return run, nil
		}
		if err := s.next(); err != nil {
			return nil, err
		}
	}
}

// next reads the next frame. It returns io.EOF at the end of the answer.
func (s *Stream) next() error {
	size, err := binary.ReadUvarint(s.in)
	if errors.Is(err, io.EOF) {
		return io.EOF // also of an answer without a frame
	}
	if err != nil {
		return fmt.Errorf("read frame: the answer breaks off: %w", err)
	}
	if size > maxForeignFrame {
		return fmt.Errorf("read frame: %d bytes are more than %d", size, maxForeignFrame)
	}
	var sum [4]byte
	if _, err := io.ReadFull(s.in, sum[:]); err != nil {
		return fmt.Errorf("read frame: the answer breaks off: %w", err)
	}
	if s.frame, err = readFrame(s.in, s.frame[:0], int(size)); err != nil {
		return fmt.Errorf("read frame: the answer breaks off: %w", err)
	}
	if crc32.Checksum(s.frame, castagnoli) != binary.BigEndian.Uint32(sum[:]) {
		return errors.New("read frame: wrong checksum")
	}
	s.chunks = s.chunks[:0]
	r := proto.Read(s.frame)
	for r.Next() {
		if r.Field != 1 || r.Data == nil {
			continue
		}
		if len(s.chunks) > 0 {
			return errors.New("read frame: more than one series")
		}
		if err := s.series(r.Data); err != nil {
			return err
		}
	}
	return r.Err
}

// readFrame reads n bytes, and takes memory as they come.
func readFrame(in io.Reader, b []byte, n int) ([]byte, error) {
	for n > 0 {
		part := min(n, 1<<20)
		at := len(b)
		b = append(b, make([]byte, part)...)
		if _, err := io.ReadFull(in, b[at:]); err != nil {
			return b, err
		}
		n -= part
	}
	return b, nil
}

// series begins the series of a frame.
func (s *Stream) series(b []byte) (err error) {
	s.tags = s.tags[:0]
	r := proto.Read(b)
	for r.Next() {
		switch {
		case r.Field == 1 && r.Data != nil:
			if s.tags, err = appendLabel(s.tags, r.Data); err != nil {
				return err
			}
		case r.Field == 2 && r.Data != nil:
			s.chunks = append(s.chunks, r.Data)
		}
	}
	if r.Err != nil {
		return r.Err
	}
	s.labels.Reset()
	for _, t := range s.tags {
		s.labels.Add(string([]byte(t.Key)), string([]byte(t.Value))) // the frame is read over
	}
	s.labels.Sort()
	s.rows.Series(s.labels.Labels(), len(s.chunks), func(i int) (chunkenc.Chunk, error) { return parseChunk(s.chunks[i]) })
	return nil
}

// parseChunk reads a chunk, which refers to b.
func parseChunk(b []byte) (chunkenc.Chunk, error) {
	var kind uint64
	var data []byte
	r := proto.Read(b)
	for r.Next() {
		switch r.Field {
		case 3:
			kind = r.Num
		case 4:
			data = r.Data
		}
	}
	if r.Err != nil {
		return nil, r.Err
	}
	if kind > 255 {
		return nil, fmt.Errorf("a chunk of the type %d", kind)
	}
	if len(data) < 2 {
		return nil, errors.New("a chunk without its number of samples")
	}
	return chunkenc.FromData(chunkenc.Encoding(kind), data)
}
