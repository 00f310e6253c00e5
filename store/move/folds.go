package move

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/aside"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/store/touched"
)

// Bounds of the rows that a move stages.
const (
	stageRows   = 10_000  // that are written at once
	stageValues = 1 << 17 // of them
	foldTries   = 3       // of a move whose rows change while it folds them

	roomTries = 600 // to write rows for which the caches have no room
	roomPause = 100 * time.Millisecond
)

// ErrFoldBusy refuses a move after foldTries.
var ErrFoldBusy = errors.New("rows that no downsample can compute again are written or deleted while their series become one: repeat the statement")

// Store is what Folds needs of the store.
type Store interface {
	scan.Storage
	Catalog() *meta.Data
	Touched() *touched.Marks
	// Applied waits for the entry that is applied at the moment.
	Applied() uint64
	Table(database string) (*point.Table, error)
	Write(ctx context.Context, database, policy string, b *point.Batch) error
	Delete(ctx context.Context, req scan.DeleteRequest) error
}

// Folds is what a move knows of the rows of series that become one in targets of downsamples,
// where nothing can compute them again. They are folded and written to a measurement of their
// own (staged) before the move is logged, and its entry gives them their series. All that is
// left of them without that entry is deleted. It is for one goroutine.
type Folds struct {
	Store       Store
	Turn        chan struct{} // of the store: has an element while a move folds
	Full        error         // of Write: the caches have no room for the rows at the moment
	Database    string
	Measurement string // that the move ends in

	now    basis
	folded basis                      // of the staged rows; nothing: none are worked out
	shards map[uint64]bool            // that have staged rows
	series map[uint64]*roaring.Bitmap // of them, by shard
	tries  int
	turn   bool // Turn is ours
}

// basis is what folded rows depend on.
type basis struct {
	lost   map[uint64]uint64 // touched.Marks.Lost by downsample
	copies map[uint64]Copy
}

// holds reports whether what was folded is still right.
func (b basis) holds(now basis) bool {
	return b.lost != nil && maps.Equal(b.lost, now.lost) && Include(b.copies, now.copies)
}

// basis returns what rows that are folded from now on depend on.
func (f *Folds) basis() basis {
	b := basis{map[uint64]uint64{}, Copies(f.Store.Catalog().Database(f.Database))}
	for _, c := range b.copies {
		b.lost[c.Downsample.ID] = f.Store.Touched().Lost(c.Downsample.ID)
	}
	f.Store.Applied() // the marks of an entry come before its rows
	return b
}

// Begin comes before the shards are looked at.
func (f *Folds) Begin() { f.now = f.basis() }

// Fold stages the folded rows of the steps of a move unless they are staged already. It returns
// ErrStale after it has: the shards have got series.
func (f *Folds) Fold(ctx context.Context, steps []*Request) error {
	if f.folded.holds(f.now) {
		return f.selectStaged(ctx)
	}
	if len(f.shards) > 0 { // rows have changed since some were staged
		if f.tries++; f.tries == foldTries {
			return ErrFoldBusy
		}
		f.folded, f.shards = basis{}, nil
		if _, err := removeStaged(ctx, f.Store, f.Database); err != nil {
			return err
		}
		return ErrStale
	}
	f.shards = map[uint64]bool{}
	st := &stage{Folds: f, ctx: ctx}
	for _, r := range steps {
		if err := r.fold(ctx, f.now.copies, st); err != nil {
			return err
		}
	}
	if err := st.flush(); err != nil {
		return err
	}
	f.folded = f.now
	if len(f.shards) > 0 {
		return ErrStale
	}
	return nil
}

// selectStaged selects the series of the staged rows.
func (f *Folds) selectStaged(ctx context.Context) error {
	f.series = map[uint64]*roaring.Bitmap{}
	for id := range f.shards {
		c := f.folded.copies[id]
		v, err := f.Store.View(f.Database, c.Downsample.Into, c.Lost[0])
		if err != nil {
			return err
		}
		for _, sh := range v.Shards() {
			if sh.ID() == id && err == nil {
				f.series[id], err = sh.Select(ctx, meta.StagedPrefix+f.Measurement, nil)
			}
		}
		v.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// Valid reports whether what is staged is still right, while nothing is written.
func (f *Folds) Valid() bool { return f.folded.holds(f.basis()) }

// Step returns the step that gives staged rows to the measurement that they are for, and false
// if there are none. It comes after all others of the move: what it moves wins over what they
// have moved.
func (f *Folds) Step() (Step, bool) {
	return Step{Change: model.Change{Measurement: meta.StagedPrefix + f.Measurement, To: f.Measurement}, Shards: f.shards}, len(f.shards) > 0
}

// Staged returns the series of a shard that have staged rows, nil if there are none.
func (f *Folds) Staged(shard uint64) *roaring.Bitmap { return f.series[shard] }

// End comes after the move. It deletes what a move that was not made has staged.
func (f *Folds) End(ctx context.Context, made bool) (err error) {
	if !f.turn {
		return nil
	}
	defer func() { <-f.Turn }()
	if !made {
		_, err = removeStaged(context.WithoutCancel(ctx), f.Store, f.Database)
	}
	return err
}

// stage writes folded rows.
type stage struct {
	*Folds
	ctx    context.Context
	shard  uint64
	policy string
	batch  point.Batch
}

// begin comes before the rows of a shard in which series become one. The first shard of a move
// waits for other moves that fold.
func (st *stage) begin(shard uint64, c *Copy) (*point.Builder, error) {
	if err := st.flush(); err != nil {
		return nil, err
	}
	if !st.turn {
		// The other move may wait for a turn of queries, which this one must not have meanwhile.
		err := aside.Wait(st.ctx, func() error {
			select {
			case st.Turn <- struct{}{}:
				st.turn = true
				return nil
			case <-st.ctx.Done():
				return st.ctx.Err()
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if st.shard == 0 { // nothing of it is staged yet
		removed, err := removeStaged(st.ctx, st.Store, st.Database)
		if err != nil {
			return nil, err
		}
		if removed {
			return nil, ErrStale
		}
	}
	st.shard, st.policy = shard, c.Downsample.Into
	for _, r := range c.Lost { // damage may come back from a backup: it must not be folded without
		v, err := st.Store.View(st.Database, st.policy, r)
		if err != nil {
			return nil, err
		}
		v.Release()
	}
	table, err := st.Store.Table(st.Database)
	if err != nil {
		return nil, err
	}
	return point.NewBuilder(table, &st.batch), nil
}

// added comes after each row.
func (st *stage) added() error {
	st.shards[st.shard] = true
	if len(st.batch.Rows) < stageRows && len(st.batch.Values) < stageValues {
		return nil
	}
	return st.flush()
}

// flush writes the rows at hand.
func (st *stage) flush() error {
	if len(st.batch.Rows) == 0 {
		return nil
	}
	st.batch.Staged = true
	var err error
	for range roomTries {
		if err = st.Store.Write(st.ctx, st.Database, st.policy, &st.batch); !errors.Is(err, st.Full) {
			break
		}
		select {
		case <-time.After(roomPause):
		case <-st.ctx.Done():
		}
	}
	st.batch.Reset()
	if err != nil {
		return fmt.Errorf("stage rows of series that become one: %w", err)
	}
	return nil
}

// removeStaged deletes the rows that moves of a database have staged, and reports whether
// there were any. The caller has the turn.
func removeStaged(ctx context.Context, s Store, database string) (removed bool, err error) {
	db := s.Catalog().Database(database)
	if db == nil {
		return false, nil
	}
	for _, rp := range db.RetentionPolicies {
		if db.Downsample(rp.Name) == nil && rp.Downsampled == nil { // it never was a target
			continue
		}
		v, err := s.Partial().View(database, rp.Name, model.AllTime)
		if err != nil {
			return removed, err
		}
		some := false
		for _, sh := range v.Shards() {
			some = some || slices.ContainsFunc(sh.Measurements(), meta.Staged)
		}
		v.Release()
		if !some {
			continue
		}
		removed = true
		if err := s.Delete(ctx, scan.DeleteRequest{Database: database, RetentionPolicy: rp.Name, Measurement: meta.Staged, Range: model.AllTime}); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// RemoveStaged deletes what moves have staged that were not made, as of a node that led
// before. It waits for moves that fold.
func RemoveStaged(ctx context.Context, s Store, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var errs []error
	for _, db := range s.Catalog().Databases {
		_, err := removeStaged(ctx, s, db.Name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
