package tsm1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"tsdbd/exchange/rows"
	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/tsm1/catalog"
)

// reader reads the rows of one shard: it merges the columns of its files and of its log
// series by series, and joins the columns of a series by time.
type reader struct {
	source  *Source
	shard   *Shard
	refused Refused
	times   model.TimeRange
	heads   []*fileHead
	log     *logWindow
	closers []io.Closer
	clashes map[string]model.FieldType // types of the fields that have several
	names   fieldNames
	pool    timePool
	series  *catalog.Names // what InfluxDB knows besides the TSM files
	fields  *catalog.Names
	unknown int // names that InfluxDB does not know

	// The present series.
	measurement []byte // as its key begins
	unwanted    bool   // the measurement is
	key         string // canonical
	checked     bool   // it is known, or reported
	raw         string // in InfluxDB
	reason      string // why it cannot be stored
	found       []*source
	columns     []*columnCursor

	// most is how many rows of a block a source holds, all of a block if it is not below
	// rows.MaxRows. rows is the largest number of rows of a run.
	most, rows int
	whole      column.Vector // a block, where sources hold parts

	run    rows.Run
	out    []column.Vector // rows that are not views
	union  []int64
	spare  []*source
	cursor []*columnCursor // to use again
	buf    []byte
}

// Rows reads the rows of a shard within times. Series come in ascending order of their
// keys. Rows passes over damage, which it reports to Options.Damage, and over rows that cannot
// be stored, which it gives to refused unless that is nil. If the files change before the last
// row was read, Rows or Next returns an ErrRunning: rows may be missing.
func (s *Source) Rows(ctx context.Context, sh *Shard, times model.TimeRange, refused Refused) (rows.Reader, error) {
	if refused == nil {
		refused = func(string, *rows.Run) {}
	}
	r := &reader{source: s, shard: sh, refused: refused, times: times.Intersect(model.AllTime), names: fieldNames{}}
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *reader) open(ctx context.Context) error {
	if err := r.shard.changed(); err != nil {
		return err
	}
	unpacked, closer, err := r.source.unpack(ctx, r.shard)
	if err != nil {
		return err
	}
	r.closers = append(r.closers, closer)
	r.series, r.fields = r.source.names(r.shard)
	tombstones, indexes := 0, int64(0)
	for i, file := range unpacked.files {
		f, closer, err := file.openTSM()
		if isNotExist(err) {
			return cmp.Or(r.shard.changed(), err)
		}
		if err != nil {
			r.damage(file.path, offsetOf(err), err)
			continue
		}
		r.closers = append(r.closers, closer)
		indexes += f.size - f.index
		h := &fileHead{file: f, rank: i << 16}
		if file.tombstone != nil {
			tombstones++
			h.deletes = &deletes{file: file.tombstone, damage: r.damage}
		}
		r.heads = append(r.heads, h)
	}
	kinds := newKindTable(indexes)
	for _, h := range r.heads {
		if err := h.survey(ctx, kinds, r.source.limits.late, r.damage); err != nil {
			return err
		}
		h.begin()
		if h.deletes != nil {
			h.deletes.window.limit = r.source.limits.tombstones / tombstones
		}
	}
	r.log = &logWindow{segments: r.shard.wal, damage: r.damage, kinds: kinds}
	r.log.window.limit = r.source.limits.log
	r.log.load("")
	r.log.kinds = nil
	return r.findClashes(ctx, kinds)
}

// findClashes finds the fields that have several types.
func (r *reader) findClashes(ctx context.Context, kinds *kindTable) error {
	if !kinds.clash {
		return nil
	}
	kinds.recount()
	for _, h := range r.heads {
		if err := h.count(ctx, kinds); err != nil {
			return err
		}
	}
	var logged namer
	count := walSink{write: func(key []byte, kind model.FieldType, n int, _ []byte) {
		if series, field, ok := splitKey(key); ok {
			kinds.add(logged.name(series).key, field, kind, int64(n))
		}
	}}
	for _, path := range r.log.segments {
		_, _ = readSegmentFile(path, count) // damage is reported already
	}
	r.clashes = kinds.clashes()
	return nil
}

// Close closes the files.
func (r *reader) Close() error {
	var errs []error
	for _, c := range slices.Backward(r.closers) {
		errs = append(errs, c.Close())
	}
	r.closers = nil
	return errors.Join(errs...)
}

func (r *reader) damage(path string, offset int64, err error) { r.source.damage(path, offset, err) }

// Next returns the next run.
func (r *reader) Next(ctx context.Context) (*rows.Run, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		switch {
		case len(r.columns) > 0 && r.join(r.columns):
			if r.reason == "" {
				return &r.run, nil
			}
			r.refuse(r.reason)
		case !r.nextSeries():
			return nil, cmp.Or(r.shard.changed(), io.EOF)
		}
	}
}

// fieldName is the name of a field of the present series in clashes.
func (r *reader) fieldName(field string) string {
	r.buf = fieldOf(r.buf[:0], []byte(r.key), []byte(field))
	return string(r.buf)
}

// refuse reports the present run as not storable.
func (r *reader) refuse(reason string) {
	run := r.run
	run.Key = r.key
	r.refused(reason, &run)
}

// nextKey returns the key of the next series, "" at the end.
func (r *reader) nextKey() string {
	key := r.log.next()
	for _, h := range r.heads {
		if k := h.next(); k != "" && (key == "" || k < key) {
			key = k
		}
	}
	return key
}

// skip passes over the present series.
func (r *reader) skip() {
	for _, h := range r.heads {
		if h.next() == r.key {
			h.take(r.key, func(*seriesStream, *indexKey) {})
		}
	}
	if r.log.next() == r.key {
		r.log.take()
	}
}

// wanted reports whether the measurement of a key is chosen.
func (r *reader) wanted(key string) bool {
	end := measurementEnd([]byte(key))
	if r.measurement == nil || key[:end] != string(r.measurement) {
		r.measurement = append(r.measurement[:0], key[:end]...)
		r.unwanted = !r.source.opt.Wanted(model.SeriesMeasurement(key))
	}
	return !r.unwanted
}

// nextSeries finds the columns of the next series, none if it is not wanted.
func (r *reader) nextSeries() bool {
	key := r.nextKey()
	if key == "" {
		return false
	}
	r.key, r.raw, r.reason, r.checked = strings.Clone(key), "", "", false
	r.recycle()
	if r.source.opt.Wanted != nil && !r.wanted(r.key) {
		r.skip()
		return true
	}
	for _, h := range r.heads {
		if h.next() == r.key {
			h.take(r.key, func(s *seriesStream, k *indexKey) {
				r.named(text(s.raw), s.name.reason)
				r.addBlocks(h, s, k)
			})
		}
	}
	if r.log.next() == r.key {
		s := r.log.take()
		r.named(s.raw, s.reason)
		for i, c := range s.columns {
			r.addLogged(c, i)
		}
	}
	r.group()
	return true
}

// named notes how InfluxDB names the present series.
func (r *reader) named(raw, reason string) {
	if r.raw == "" {
		r.raw, r.reason = r.key, reason
		if raw != r.key {
			r.raw = strings.Clone(raw)
		}
	}
}

// recycle takes back what the last series has used.
func (r *reader) recycle() {
	for _, s := range r.found {
		if len(r.spare) < maxSpare {
			r.spare = append(r.spare, s)
		}
	}
	r.found = r.found[:0]
	for _, c := range r.columns {
		if len(r.cursor) < maxSpare {
			r.cursor = append(r.cursor, c)
		}
	}
	r.columns = r.columns[:0]
}

// maxSpare bounds the sources and cursors that are kept to be used again.
const maxSpare = 4096

func (r *reader) newSource(rank int, field string, kind model.FieldType) *source {
	var s *source
	if n := len(r.spare); n > 0 {
		s, r.spare = r.spare[n-1], r.spare[:n-1]
	} else {
		s = &source{}
	}
	*s = source{rank: rank, field: field, kind: kind, refs: s.refs[:0], values: s.values}
	return s
}

// addBlocks adds the blocks of a column in a file. Blocks of one file do not overlap; if
// they do, each sequence that does not is a source of its own.
func (r *reader) addBlocks(h *fileHead, in *seriesStream, k *indexKey) {
	field := r.names.of(k.field)
	deletes := h.deletes.of(r.key, in.raw, k.field)
	lane := 0
	s := r.newSource(h.rank, field, k.kind)
	s.file, s.entry, s.deletes = h.file, k.offset, deletes
	add := func() {
		if len(s.refs) > 0 {
			r.found = append(r.found, s)
		}
	}
	highest := int64(math.MinInt64)
	for i := range k.count() {
		ref := k.ref(i)
		if ref.times.Empty() {
			r.damage(h.file.path, k.offset, binio.Corruptf("", -1, "index entry with a block from %d to %d", ref.times.Min, ref.times.Max))
			continue
		}
		if r.hidden(s, ref.times) {
			continue
		}
		if len(s.refs) > 0 && ref.times.Min <= highest {
			add()
			lane++
			s = r.newSource(h.rank+lane, field, k.kind)
			s.file, s.entry, s.deletes = h.file, k.offset, deletes
		}
		highest = ref.times.Max
		s.refs = append(s.refs, ref)
	}
	add()
}

// addLogged adds the rows of a column in the log.
func (r *reader) addLogged(c *walColumn, i int) {
	c.order()
	if len(c.times) == 0 {
		return
	}
	s := r.newSource(math.MaxInt-i, r.names.of([]byte(c.field)), c.kind)
	s.list = r.pool.empty()
	s.list.times, s.values = append(s.list.times, c.times...), c.values
	if r.narrow(s); s.list != nil {
		r.found = append(r.found, s)
	}
}

// bound sets how many rows sources and runs have, so that a series of very many fields
// takes no more memory. Its blocks are decoded several times.
func (r *reader) bound() {
	r.most = max(r.source.limits.cells/max(len(r.found), 1), 1)
	if r.most >= rows.MaxRows {
		r.most = math.MaxInt32
	}
	r.rows = min(r.most, rows.MaxRows)
}

// group makes columns of the sources that were found.
func (r *reader) group() {
	r.bound()
	slices.SortStableFunc(r.found, func(a, b *source) int {
		return cmp.Or(strings.Compare(a.field, b.field), cmp.Compare(a.kind, b.kind))
	})
	for i := 0; i < len(r.found); {
		f := column.Field{Key: r.found[i].field, Type: r.found[i].kind}
		var c *columnCursor
		if n := len(r.cursor); n > 0 {
			c, r.cursor = r.cursor[n-1], r.cursor[:n-1]
		} else {
			c = &columnCursor{}
		}
		*c = columnCursor{Field: f, sources: c.sources[:0], merged: c.merged}
		for ; i < len(r.found) && r.found[i].field == f.Key && r.found[i].kind == f.Type; i++ {
			c.sources = append(c.sources, r.found[i])
		}
		if len(r.clashes) > 0 {
			if most, ok := r.clashes[r.fieldName(f.Key)]; ok && most != f.Type {
				r.refuseColumn(c, fmt.Sprintf("field %q of %s has values of type %s, most are of type %s", f.Key, r.raw, f.Type, most))
				continue
			}
		}
		if reason := r.badField(f.Key); reason != "" && r.reason == "" {
			r.refuseColumn(c, reason)
			continue
		}
		r.columns = append(r.columns, c)
	}
	r.setFields()
}

// setFields makes the fields of the series' runs.
func (r *reader) setFields() {
	r.run.Key = r.key
	same := len(r.run.Fields) == len(r.columns)
	for i := 0; i < len(r.columns) && same; i++ {
		same = r.run.Fields[i] == r.columns[i].Field
	}
	if same { // as that of most neighbors
		return
	}
	r.run.Fields = make([]column.Field, len(r.columns))
	for i, c := range r.columns {
		r.run.Fields[i] = c.Field
	}
}

// badField returns why a field cannot be stored, "" if it can.
func (r *reader) badField(field string) string {
	if reason := model.UnstorableField(field); reason != "" {
		return fmt.Sprintf("field %q of %s %s", field, r.raw, reason)
	}
	if n := len(r.key) + model.FieldSeparatorLength + len(field); n > model.MaxKeyLength {
		return fmt.Sprintf("field %q of %.100s... has a key of %d bytes", field, r.raw, n)
	}
	return ""
}

// refuseColumn reports all rows of a column.
func (r *reader) refuseColumn(c *columnCursor, reason string) {
	r.run.Fields = []column.Field{c.Field}
	for r.join([]*columnCursor{c}) {
		r.refuse(reason)
	}
}

// join makes the next run of some columns of the series. It returns false at their end.
func (r *reader) join(columns []*columnCursor) bool {
	r.union = r.union[:0]
	var first *columnCursor
	n, limit, aligned := r.rows, int64(math.MaxInt64), true
	for _, c := range columns {
		if !c.fill(r) {
			aligned = false
			continue
		}
		if !c.checked {
			r.check(c)
		}
		n = min(n, c.end-c.at)
		limit = min(limit, c.list.times[c.end-1])
		if first == nil {
			first = c
		}
	}
	if first == nil {
		return false
	}
	for _, c := range columns {
		same := aligned && (c.list == first.list && c.at == first.at || slices.Equal(c.times()[:n], first.times()[:n]))
		aligned = aligned && same
	}
	if r.run.Cols = r.run.Cols[:0]; aligned {
		r.run.Times = first.times()[:n]
		for _, c := range columns {
			r.run.Cols = append(r.run.Cols, c.values.Slice(c.at, c.at+n))
			c.at += n
		}
		return true
	}
	r.unite(columns, limit)
	r.scatter(columns)
	return true
}

// check reports names of a column with rows that InfluxDB does not know besides its TSM files.
// It may have forgotten those of rows that were deleted. Names in the log are not checked.
func (r *reader) check(c *columnCursor) {
	c.checked = true
	i := slices.IndexFunc(c.sources, func(s *source) bool { return s.file != nil })
	if i < 0 {
		return
	}
	report := func(format string, args ...any) {
		if r.unknown++; r.unknown <= maxUnknown {
			r.damage(c.sources[i].file.path, c.sources[i].entry, fmt.Errorf(format, args...))
		}
	}
	if !r.checked && r.reason == "" && !r.series.Has([]byte(r.key)) {
		report("series %q is not in the series file: its name is damaged, or the file is of another time", r.raw)
	}
	r.checked = true
	r.buf = fieldOf(r.buf[:0], []byte(r.key), []byte(c.Key))
	if r.reason == "" && !r.fields.Has(r.buf) && r.badField(c.Key) == "" {
		report("field %q of series %q is not in fields.idx: a name is damaged, or the file is of another time", c.Key, r.raw)
	}
}

// maxUnknown bounds the names of a shard that are reported.
const maxUnknown = 20

// unite makes the ascending times of the views up to a limit, at most r.rows.
func (r *reader) unite(columns []*columnCursor, limit int64) {
	var latest *columnCursor
	for _, c := range columns {
		if c.at == c.end || latest != nil && c.list == latest.list && c.at == latest.at && c.end == latest.end {
			continue
		}
		latest = c
		n := min(r.rows, c.end-c.at)
		end, _ := slices.BinarySearch(c.list.times[c.at:c.at+n], limit)
		if end < n && c.list.times[c.at+end] == limit {
			end++
		}
		r.union = append(r.union, c.list.times[c.at:c.at+end]...)
	}
	slices.Sort(r.union)
	r.union = slices.Compact(r.union)
	r.union = r.union[:min(len(r.union), r.rows)]
	r.run.Times = r.union
}

// scatter puts the values of the columns to the times of the run.
func (r *reader) scatter(columns []*columnCursor) {
	for len(r.out) < len(columns) {
		r.out = append(r.out, column.Vector{})
	}
	last := r.union[len(r.union)-1]
	for i, c := range columns {
		v := &r.out[i]
		v.Reset(c.Type)
		for row := 0; row < len(r.union); {
			if c.at == c.end || c.list.times[c.at] > last {
				v.AppendNulls(len(r.union) - row)
				break
			}
			gap := row
			for r.union[row] < c.list.times[c.at] {
				row++
			}
			v.AppendNulls(row - gap)
			begin := c.at
			for row < len(r.union) && c.at < c.end && c.list.times[c.at] == r.union[row] {
				c.at++
				row++
			}
			v.AppendVector(c.values, begin, c.at)
		}
		r.run.Cols = append(r.run.Cols, *v)
	}
}

// unstorable reports whether a block has values that cannot be stored.
func (r *reader) unstorable(s *source) bool {
	for _, v := range s.values.Floats {
		if v != v {
			return true
		}
	}
	for _, v := range s.values.Strings {
		if len(v) > column.MaxStringLength {
			return true
		}
	}
	return false
}

// storable reports whether a value can be stored. It reports those that cannot.
func (r *reader) storable(s *source, from column.Rows, i int) bool {
	reason := ""
	switch {
	case s.kind == model.Float && from.Cols[0].Floats[i] != from.Cols[0].Floats[i]:
		reason = fmt.Sprintf("field %q of %s is not a number", s.field, r.raw)
	case s.kind == model.String && len(from.Cols[0].Strings[i]) > column.MaxStringLength:
		reason = fmt.Sprintf("field %q of %s has a string of %d bytes, %d are the limit", s.field, r.raw, len(from.Cols[0].Strings[i]), column.MaxStringLength)
	default:
		return true
	}
	r.refused(reason, &rows.Run{
		Key: r.key, Fields: []column.Field{{Key: s.field, Type: s.kind}}, Rows: from.Slice(i, i+1, nil),
	})
	return false
}
