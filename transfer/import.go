package transfer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/influxdata/influxql"
	"golang.org/x/sync/errgroup"

	"tsdbd/exchange"
	"tsdbd/lineproto"
	"tsdbd/transfer/source/csv"
	"tsdbd/transfer/source/mongo"
)

// ImportOptions say how lines are sent. The zero value works for a file that
// names its databases.
type ImportOptions struct {
	Database        string // of lines before the first header
	RetentionPolicy string
	Precision       string // of the times: ns (default), us, ms, s, m, h
	BatchBytes      int    // of a request; default 1 MiB
	Workers         int    // requests at a time; default 2
	// Ordered sends one request at a time, so that of two lines for the same
	// point the later one wins.
	Ordered bool
	// CSV, if set, says that the input is CSV, and how it is read. Its times have no
	// Precision.
	CSV *csv.Options
	// Mongo, if set, says that the input is documents, and how they are read.
	Mongo *mongo.Options
	// Series says that the input is VictoriaMetrics' lines of JSON, one or more for a
	// series. Without a Database the server chooses that of Prometheus.
	Series bool
	Name   string // of the input, for errors about rows and lines of series
	// Failed, if set, receives the lines that the server refused, of CSV the rows that were
	// refused, below their header, and the documents that were.
	Failed   io.Writer
	Progress func(ImportStats) // after each request
}

// ImportStats count what an import did.
type ImportStats struct {
	Lines      int64 // of points
	Written    int64 // points stored
	Failed     int64 // lines and points refused
	Statements int64 // run
	// FailedStatements are those that had an error. The import continues: what
	// a statement should make may be there in another form.
	FailedStatements int64
	Policies         []string // retention policies made, as "policy of database"
	Errors           []string // the first refusals
}

// Add adds what another import did.
func (s *ImportStats) Add(o ImportStats) {
	s.Lines += o.Lines
	s.Written += o.Written
	s.Failed += o.Failed
	s.Statements += o.Statements
	s.FailedStatements += o.FailedStatements
	s.Policies = append(s.Policies, o.Policies...)
	for _, e := range o.Errors {
		s.addError(e)
	}
}

// addError adds a refusal, unless there are enough, or one for the same reason.
func (s *ImportStats) addError(text string) {
	reason := func(text string) string {
		reason, _, _ := strings.Cut(text, " dropped=") // the number of lines differs
		return reason
	}
	if len(s.Errors) < maxImportErrors && !slices.ContainsFunc(s.Errors, func(e string) bool { return reason(e) == reason(text) }) {
		s.Errors = append(s.Errors, text)
	}
}

// maxImportErrors bounds ImportStats.Errors.
const maxImportErrors = 20

// maxLine bounds a line: some strings of the greatest length.
const maxLine = 4 << 20

// Import reads line protocol, CSV, documents, or lines of series, compressed by gzip or zstd or not, and writes it to a server. Headers
// may precede lines as Export writes them: "# DDL" before statements, "# DML"
// before points, and "# CONTEXT-DATABASE:" and "# CONTEXT-RETENTION-POLICY:" before
// the points of a policy. Import ignores other comments.
//
// If a header names a retention policy that the server lacks, Import creates it
// with infinite duration: influx_inspect writes no durations.
//
// Import counts what the server rejects and continues. If the server cannot be
// reached, or has a problem of its own, Import retries for a minute and then
// returns an error.
func Import(ctx context.Context, c *exchange.Client, r io.Reader, opt ImportOptions) (ImportStats, error) {
	br, done, err := openInput(r)
	defer done()
	if err != nil {
		return ImportStats{}, err
	}
	if opt.BatchBytes <= 0 {
		opt.BatchBytes = 1 << 20
	}
	if opt.Workers <= 0 {
		opt.Workers = 2
	}
	if opt.Ordered {
		opt.Workers = 1
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	im := &importer{ctx: ctx, cancel: cancel, client: c, opt: opt, db: opt.Database, rp: opt.RetentionPolicy}
	im.workers.SetLimit(opt.Workers)
	switch {
	case opt.CSV != nil || opt.Mongo != nil:
		im.opt.Precision = "ns"
		err = im.readRows(br)
	case opt.Series:
		err = im.readSeries(br)
	default:
		err = im.read(br)
	}
	if err == nil {
		err = im.hand()
	}
	_ = im.workers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return im.stats, err
}

type importBatch struct {
	db, rp string
	body   []byte
	lines  int64
	ends   []int // offsets behind the lines
	first  int   // the number of its first line in the batch that it is a part of
	// sources has one entry for each line of CSV.
	sources []tableRow
}

type importer struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	client *exchange.Client
	opt    ImportOptions

	db, rp     string
	statements bool // in a DDL section
	exact      bool // the headers are those of Export
	batch      importBatch
	workers    errgroup.Group

	mu        sync.Mutex
	stats     ImportStats
	madeTwice int    // times that a policy was asked for that had been made
	keptHead  []byte // of the latest row in opt.Failed
}

// read takes the input apart. A line ends where a server ends it: a line break inside of a
// string belongs to the line. So what is in a string never becomes a line, also of a line
// that is too long or whose end is missing.
func (im *importer) read(r *bufio.Reader) error {
	var kept []byte // of the line: all of it, unless it is too long
	var line lineproto.Line
	length, breaks, number := 0, 0, 1
	for {
		part, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("read lines: %w", err)
		}
		length += len(part)
		kept = appendStart(kept, part)
		_, ended := line.End(part)
		if err == nil {
			breaks++
			ended = ended || im.statements
		}
		end := errors.Is(err, io.EOF)
		if !ended && !end {
			continue
		}
		inner := breaks // line breaks within the line
		if ended {
			inner--
		}
		switch {
		case length > maxLine && !isComment(kept):
			im.refuseLine(number, inner, kept, fmt.Sprintf("the line has %d bytes, more than %d", length, maxLine))
		case !im.statements && line.Quoted():
			im.refuseLine(number, inner, kept, "the line has a string without its end")
		case !im.statements && line.Escaped():
			im.refuseLine(number, inner, kept, "the line ends with a backslash")
		default:
			if err := im.line(kept); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
		kept, line = kept[:0], lineproto.Line{}
		number += breaks
		length, breaks = 0, 0
	}
}

// tailBytes is how much is kept of the end of a line that is too long.
const tailBytes = 100

// appendStart appends a part of a line. Of a line that is too long it keeps the start and
// the end.
func appendStart(kept, part []byte) []byte {
	if len(kept) <= maxLine {
		n := min(len(part), maxLine+1-len(kept))
		kept, part = append(kept, part[:n]...), part[n:]
	}
	if len(part) == 0 {
		return kept
	}
	tail := append(kept[maxLine+1:], part[max(0, len(part)-tailBytes):]...)
	tail = tail[max(0, len(tail)-tailBytes):]
	return append(kept[:maxLine+1], tail...)
}

// refuseLine counts a line that is not sent, and keeps it as a comment: as a line it would
// swallow the lines behind it, or be another point.
func (im *importer) refuseLine(number, breaks int, line []byte, reason string) {
	if breaks > 0 {
		reason += fmt.Sprintf(", and %d line breaks", breaks)
	}
	line = bytes.TrimRight(line, "\r\n")
	im.mu.Lock()
	defer im.mu.Unlock()
	im.stats.Lines++
	im.stats.Failed++
	im.stats.addError(fmt.Sprintf("line %d: %s: %.200q", number, reason, line))
	if im.opt.Failed == nil {
		return
	}
	text := fmt.Appendf(nil, "# %s: ", reason)
	if len(line) > maxLine {
		text = fmt.Appendf(text, "%q ... %q\n", line[:1000], line[len(line)-tailBytes:])
	} else {
		text = fmt.Appendf(text, "%q\n", line)
	}
	im.keepLocked(im.db, im.rp, text)
}

// keepLocked writes lines that were not stored for later. An import that loses
// them ends.
func (im *importer) keepLocked(db, rp string, lines []byte) {
	if _, err := fmt.Fprintf(im.opt.Failed, "# CONTEXT-DATABASE:%s\n# CONTEXT-RETENTION-POLICY:%s\n%s", db, rp, lines); err != nil {
		im.cancel(fmt.Errorf("write failed lines: %w", err))
	}
}

// lineStart are the bytes that InfluxDB skips at the start of a line. A "#" behind them
// begins a comment.
const lineStart = " \t\x00"

// isComment reports whether a line is a comment or a header.
func isComment(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, lineStart), []byte{'#'})
}

// line takes one line, with its newline.
func (im *importer) line(line []byte) error {
	text := bytes.TrimLeft(bytes.TrimRight(line, "\r\n"), lineStart)
	if len(text) == 0 {
		return nil
	}
	if text[0] == '#' {
		return im.header(string(text[1:]))
	}
	if im.statements {
		return im.statement(string(bytes.TrimSpace(text)))
	}
	if im.db == "" {
		return errors.New("no database: name one with -db, or give a file with a \"# CONTEXT-DATABASE:\" header")
	}
	b := &im.batch
	b.db, b.rp = im.db, im.rp
	b.body = append(b.body, trimReturn(line)...)
	b.body = append(b.body, '\n')
	b.lines++
	b.ends = append(b.ends, len(b.body))
	if len(b.body) < im.opt.BatchBytes {
		return nil
	}
	return im.hand()
}

// trimReturn returns a line without its line break, also that of Windows. A backslash before
// the latter keeps it: at the end of the line it would hide the line break.
func trimReturn(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if short, ok := bytes.CutSuffix(line, []byte{'\r'}); ok && !bytes.HasSuffix(short, []byte{'\\'}) {
		return short
	}
	return line
}

// statement runs a statement of the input when everything before it is written.
func (im *importer) statement(text string) error {
	if err := im.flush(); err != nil {
		return err
	}
	err := im.client.Query(im.ctx, text)
	var refused *exchange.WriteError
	if ctxErr := im.ctx.Err(); ctxErr != nil || errors.As(err, &refused) && refused.Temporary() {
		return fmt.Errorf("%s: %w", text, err)
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	im.stats.Statements++
	if err != nil {
		im.stats.FailedStatements++
		im.stats.addError(fmt.Sprintf("%s: %v", text, err))
	}
	return nil
}

// header takes a comment; those that mean nothing are passed over.
func (im *importer) header(text string) error {
	text = strings.TrimLeft(text, " ")
	name := strings.TrimSpace
	if im.exact {
		name = strings.Clone // a name may begin or end with a space
	}
	if v, ok := strings.CutPrefix(text, "CONTEXT-DATABASE:"); ok {
		im.db, im.rp = name(v), ""
	} else if v, ok := strings.CutPrefix(text, "CONTEXT-RETENTION-POLICY:"); ok {
		im.rp = name(v)
	} else if text = strings.TrimSpace(text); text == "DDL" {
		im.statements = true
	} else if text == "DML" {
		im.statements = false
	} else {
		im.exact = im.exact || strings.HasPrefix(text, exchange.ExportTitle)
		return nil
	}
	return im.hand()
}

// hand gives the present batch to a worker. A worker's error is the cause of the
// end of im.ctx.
func (im *importer) hand() error {
	if b := im.batch; b.lines > 0 && im.ctx.Err() == nil {
		im.batch = importBatch{}
		im.workers.Go(func() error {
			if err := im.sendBatch(&b); err != nil {
				im.cancel(fmt.Errorf("write to database %s: %w", b.db, err))
			}
			return nil
		})
	}
	return context.Cause(im.ctx)
}

// flush waits until everything so far is written: a statement may need it.
func (im *importer) flush() error {
	if err := im.hand(); err != nil {
		return err
	}
	_ = im.workers.Wait()
	return context.Cause(im.ctx)
}

// ofLines reports that lines were refused and the others stored.
func ofLines(e *exchange.WriteError) bool {
	return e.Status == http.StatusBadRequest && (strings.Contains(e.Message, "partial write") || strings.Contains(e.Message, "unable to parse"))
}

// ofPolicy reports that the database has no such retention policy.
func ofPolicy(e *exchange.WriteError) bool {
	return strings.Contains(e.Message, "retention policy not found")
}

// importPatience is how long a server that has a problem of its own is tried.
const importPatience = time.Minute

// sendBatch writes a batch. If the server refuses lines of it, sendBatch finds
// out which: the text of the refusal names one kind of reason, and not all lines.
func (im *importer) sendBatch(b *importBatch) error {
	refusal, err := im.write(b)
	var bad []int
	if err == nil && refusal != nil {
		bad, err = im.search(b, b, refusal, nil)
	}
	if err != nil {
		return err
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	im.stats.Lines += b.lines
	im.stats.Failed += int64(len(bad))
	im.stats.Written += b.lines - int64(len(bad))
	im.keepBadLocked(b, bad)
	if im.opt.Progress != nil {
		im.opt.Progress(im.stats)
	}
	return nil
}

// keepBadLocked writes the lines of a batch that the server refused for later, or
// the rows that they come from.
func (im *importer) keepBadLocked(b *importBatch, bad []int) {
	if im.opt.Failed == nil || len(bad) == 0 {
		return
	}
	var lines []byte
	for _, i := range bad {
		if b.sources != nil {
			im.keepRowLocked(&b.sources[i])
			continue
		}
		begin := 0
		if i > 0 {
			begin = b.ends[i-1]
		}
		lines = append(lines, b.body[begin:b.ends[i]]...)
	}
	if b.sources == nil {
		im.keepLocked(b.db, b.rp, lines)
	}
}

// write sends a batch until the server takes or refuses it.
func (im *importer) write(b *importBatch) (*exchange.WriteError, error) {
	for begin, wait := time.Now(), 100*time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := im.send(b)
		var refusal *exchange.WriteError
		switch {
		case err == nil:
			return nil, nil
		case errors.As(err, &refusal) && ofLines(refusal):
			return refusal, nil
		case refusal != nil && ofPolicy(refusal) && b.rp != "" && b.rp != im.opt.RetentionPolicy:
			if err := im.makePolicy(b.db, b.rp); err != nil {
				return nil, err
			}
			continue
		case refusal != nil && !refusal.Temporary(), im.ctx.Err() != nil, time.Since(begin) > importPatience:
			return nil, err
		}
		select {
		case <-time.After(wait):
		case <-im.ctx.Done():
		}
	}
}

// sendTime is how long a server has to take a request and to answer it.
const sendTime = 10 * time.Minute

var errUnanswered = fmt.Errorf("the server has not answered for %s", sendTime)

// send sends a batch once.
func (im *importer) send(b *importBatch) (err error) {
	ctx, cancel := context.WithTimeoutCause(im.ctx, sendTime, errUnanswered)
	defer cancel()
	if im.opt.Series {
		err = im.client.WriteSeries(ctx, b.db, b.rp, b.body)
	} else {
		err = im.client.Write(ctx, b.db, b.rp, im.opt.Precision, b.body)
	}
	if err != nil && context.Cause(ctx) == errUnanswered {
		return fmt.Errorf("%w: %w", errUnanswered, err)
	}
	var refusal *exchange.WriteError
	if im.opt.Series && errors.As(err, &refusal) {
		refusal.Dropped = -1 // the server counts samples
	}
	return err
}

// makePolicy makes a retention policy; a second time is an error, so that a
// batch does not ask forever.
func (im *importer) makePolicy(db, rp string) error {
	im.mu.Lock()
	defer im.mu.Unlock()
	name := rp + " of " + db
	if slices.Contains(im.stats.Policies, name) {
		if im.madeTwice++; im.madeTwice > im.opt.Workers {
			return fmt.Errorf("retention policy %s was made and is not there", name)
		}
		return nil // by another worker, while this batch was under way
	}
	q := fmt.Sprintf("CREATE RETENTION POLICY %s ON %s DURATION INF REPLICATION 1", influxql.QuoteIdent(rp), influxql.QuoteIdent(db))
	if err := im.client.Query(im.ctx, q); err != nil {
		return fmt.Errorf("%s: %w", q, err)
	}
	im.stats.Policies = append(im.stats.Policies, name)
	return nil
}

// search appends the lines of a refused part of a batch that the server does not store to
// bad, by their numbers in the batch. It sends the batch again by halves. What the server takes
// it has already; storing it again changes nothing. A server that says how many
// lines it dropped spares the search where it dropped all lines or none.
func (im *importer) search(whole, b *importBatch, refusal *exchange.WriteError, bad []int) ([]int, error) {
	switch {
	case refusal.Dropped == 0: // all points are stored, without a field "time"
		im.tell(nil, refusal)
		return bad, nil
	case b.lines == 1 || refusal.Dropped == b.lines:
		if whole.sources != nil {
			im.tell(whole.sources[b.first:b.first+len(b.ends)], refusal)
		} else {
			im.tell(nil, refusal)
		}
		for i := range b.ends {
			bad = append(bad, b.first+i)
		}
		return bad, nil
	}
	half := len(b.ends) / 2
	cut := b.ends[half-1]
	left := importBatch{db: b.db, rp: b.rp, body: b.body[:cut], lines: int64(half), ends: b.ends[:half], first: b.first}
	right := importBatch{db: b.db, rp: b.rp, body: b.body[cut:], lines: b.lines - int64(half), first: b.first + half}
	for _, e := range b.ends[half:] {
		right.ends = append(right.ends, e-cut)
	}
	for _, part := range []*importBatch{&left, &right} {
		refusal, err := im.write(part)
		if err != nil {
			return nil, err
		}
		if refusal == nil {
			continue
		}
		if bad, err = im.search(whole, part, refusal, bad); err != nil {
			return nil, err
		}
	}
	return bad, nil
}

// tell notes why the server refused lines, and the rows that they come from.
func (im *importer) tell(of []tableRow, refusal *exchange.WriteError) {
	text := refusal.Message
	if len(of) > 0 {
		if im.opt.Series {
			text = lineOfBody.ReplaceAllString(text, "$1")
		}
		where := fmt.Sprintf("%s:%d", im.opt.Name, of[0].line)
		if last := of[len(of)-1].line; last != of[0].line {
			where += fmt.Sprintf("-%d", last) // the server names one reason
		}
		text = where + ": " + text
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	im.stats.addError(text)
}
