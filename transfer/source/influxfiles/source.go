// Package influxfiles is the mover.Source of InfluxDB's files, which package tsm1 reads. Its
// parts are the shards.
package influxfiles

import (
	"context"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/tsm1"
)

// New returns the data of InfluxDB as a source.
func New(src *tsm1.Source) *mover.List {
	l := &mover.List{All: mover.Catalog{Databases: src.Catalog().Databases, Users: src.Catalog().Users}}
	for _, sh := range src.Shards() {
		l.Items = append(l.Items, &mover.Part{
			Name: mover.Shard(sh.ID, sh.Database, sh.Policy), Database: sh.Database, Policy: sh.Policy, ID: sh.ID,
			Times: sh.Times, Bytes: sh.TSMBytes + sh.WALBytes, Values: sh.Values,
			Open: func(ctx context.Context, times model.TimeRange, refuse mover.Refuse) (rows.Reader, error) {
				return src.Rows(ctx, sh, times, tsm1.Refused(refuse))
			},
		})
	}
	return l
}
