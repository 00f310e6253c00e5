package remote

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// MediaSamples and MediaFrames are the Content-Types of answers to remote read.
	MediaSamples = "application/x-protobuf"
	MediaFrames  = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"

	// maxFrame bounds the chunks of a frame.
	maxFrame = 1 << 20
	// maxChunkSamples and maxChunk bound a chunk in samples and bytes.
	maxChunkSamples = 120
	maxChunk        = maxFrame / 4
)

// Frames writes series as frames of chunks, one ChunkedReadResponse each. A series is
// in frames of its own.
type Frames struct {
	write  func(frame []byte) error
	labels []byte // members of the present ChunkedSeries
	chunks []byte
	frame  []byte

	chunk      chunkenc.Chunk
	app        chunkenc.Appender
	kind       chunkenc.ValueType
	count      int
	start, end int64
}

// NewFrames returns Frames that calls write with each frame. write must not keep it.
func NewFrames(write func(frame []byte) error) *Frames { return &Frames{write: write} }

// Add writes a series of the result of a query.
func (f *Frames) Add(query int, s storage.Series) error {
	f.labels, f.chunks = f.labels[:0], f.chunks[:0]
	s.Labels().Range(func(l labels.Label) { f.labels = AppendLabel(f.labels, l.Name, l.Value) })
	it := s.Iterator(nil)
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		if err := f.add(query, kind, it); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	if err := f.endChunk(query); err != nil {
		return err
	}
	return f.endFrame(query)
}

// add adds the present sample of an iterator to the chunk, or to a new one.
func (f *Frames) add(query int, kind chunkenc.ValueType, it chunkenc.Iterator) (err error) {
	if f.chunk != nil && (kind != f.kind || f.count == maxChunkSamples || len(f.chunk.Bytes()) >= maxChunk) {
		if err := f.endChunk(query); err != nil {
			return err
		}
	}
	t := it.AtT()
	if f.chunk == nil {
		// Chunks with start timestamps have types that readers may not know.
		if f.chunk, err = kind.NewChunk(false, false); err != nil {
			return fmt.Errorf("begin chunk: %w", err)
		}
		if f.app, err = f.chunk.Appender(); err != nil {
			return fmt.Errorf("begin chunk: %w", err)
		}
		f.kind, f.start = kind, t
	}
	var next chunkenc.Chunk
	var recoded bool
	app := f.app
	switch kind {
	case chunkenc.ValFloat:
		_, v := it.At()
		f.app.Append(0, t, v)
	case chunkenc.ValHistogram:
		var h *histogram.Histogram
		_, h = it.AtHistogram(nil)
		next, recoded, app, err = f.app.AppendHistogram(nil, 0, t, h, false)
	case chunkenc.ValFloatHistogram:
		var h *histogram.FloatHistogram
		_, h = it.AtFloatHistogram(nil)
		next, recoded, app, err = f.app.AppendFloatHistogram(nil, 0, t, h, false)
	}
	if err != nil {
		return fmt.Errorf("append histogram to chunk: %w", err)
	}
	if next != nil {
		if !recoded { // the histogram is in the next chunk, and there is nothing of it in this one
			if err := f.endChunk(query); err != nil {
				return err
			}
			f.kind, f.start = kind, t
		}
		f.chunk = next
	}
	f.app, f.end = app, t
	f.count++
	return nil
}

// endChunk adds the chunk to the frame, which is written first if it has no room.
func (f *Frames) endChunk(query int) error {
	if f.chunk == nil {
		return nil
	}
	b := appendNumber(nil, 1, uint64(f.start))
	b = appendNumber(b, 2, uint64(f.end))
	b = appendNumber(b, 3, uint64(f.chunk.Encoding()))
	b = appendMessage(b, 4, f.chunk.Bytes())
	if len(f.chunks) > 0 && len(f.labels)+len(f.chunks)+len(b)+4*maxHead > maxFrame {
		if err := f.endFrame(query); err != nil {
			return err
		}
	}
	f.chunks = appendMessage(f.chunks, 2, b)
	f.chunk, f.app, f.count = nil, nil, 0
	return nil
}

// castagnoli is the checksum of frames.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// endFrame writes the chunks, behind their length and checksum.
func (f *Frames) endFrame(query int) error {
	if len(f.chunks) == 0 {
		return nil
	}
	series := len(f.labels) + len(f.chunks)
	message := protowire.SizeTag(1) + protowire.SizeBytes(series)
	if query > 0 {
		message += protowire.SizeTag(2) + protowire.SizeVarint(uint64(query))
	}
	f.frame = binary.AppendUvarint(f.frame[:0], uint64(message))
	sum := len(f.frame)
	f.frame = append(f.frame, 0, 0, 0, 0)
	f.frame = protowire.AppendVarint(protowire.AppendTag(f.frame, 1, protowire.BytesType), uint64(series))
	f.frame = append(append(f.frame, f.labels...), f.chunks...)
	if query > 0 {
		f.frame = appendNumber(f.frame, 2, uint64(query))
	}
	binary.BigEndian.PutUint32(f.frame[sum:], crc32.Checksum(f.frame[sum+4:], castagnoli))
	f.chunks = f.chunks[:0]
	return f.write(f.frame)
}
