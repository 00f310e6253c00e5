package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tsdbd/internal/testkit/load"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard/manifest"
	"tsdbd/tsm"
)

const (
	tailsBytes = 100_000_000_000 // of all objects
	tailsLimit = time.Second     // CPU
	week       = 7 * 24 * time.Hour
)

// tails opens the tails of 100 GB of objects, once in large files and once in small ones.
func (c *coldRun) tails(ctx context.Context) error {
	var rows [][]string
	for _, hosts := range []int{5000, 500} {
		row, err := c.openTails(ctx, max(10, int(c.scale*float64(hosts))))
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	c.report.section("Opening the tails of 100 GB", fmt.Sprintf(`Shards of one file each, in the store with all but their tails. Each file has a week of devops rows of so
many hosts. The server has been started once before, so the files are in the page cache. It is at rest %s after it serves: meanwhile it
has looked at what it publishes in the store.`, restTime))
	c.report.table([]string{"hosts", "shards", "GB of objects", "MiB of tails", "ms until it serves", "CPU ms until then", "CPU ms until rest", "MiB anonymous", "MiB resident"}, rows)
	return nil
}

// openTails measures a start with tails of files of some hosts, which have 100 GB together.
func (c *coldRun) openTails(ctx context.Context, hosts int) ([]string, error) {
	c.say("tails: write a file of %d hosts", hosts)
	dir := filepath.Join(c.dir, "file")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	info, err := writeTail(ctx, dir, hosts)
	if err != nil {
		return nil, err
	}
	shards := int(c.scale * tailsBytes / float64(info.Size))
	c.say("tails: make %d shards of %s MiB", shards, mib(info.Size))
	if err := c.makeShards(ctx, dir, info, max(shards, 10)); err != nil {
		return nil, err
	}
	env := c.store.env(fmt.Sprintf("tails%d", hosts), "64MiB")
	rest := func(*process, *target) error { time.Sleep(restTime); return nil }
	if err := c.with(ctx, env, rest); err != nil { // it takes over what was made beside it
		return nil, err
	}
	begin := time.Now()
	var row []string
	err = c.with(ctx, env, func(s *process, t *target) error {
		ready, opened := time.Since(begin), usage(t.pid).cpu
		time.Sleep(restTime)
		u := usage(t.pid)
		b, err := t.client.do(ctx, http.MethodGet, "/api/tsdbd/cold", nil, nil)
		if err != nil {
			return err
		}
		var st struct {
			Bytes   int64
			Objects int
		}
		if err := json.Unmarshal(b, &st); err != nil {
			return err
		}
		want := int64(max(shards, 10)) * info.Size
		if st.Bytes != want || st.Objects != max(shards, 10) {
			return fmt.Errorf("the server knows of %d objects of %d bytes, want %d of %d", st.Objects, st.Bytes, max(shards, 10), want)
		}
		row = []string{
			fmt.Sprint(hosts), fmt.Sprint(st.Objects), fmt.Sprintf("%.1f", float64(st.Bytes)/1e9), mib(diskOf(s.dir).files[".tail"]),
			fmt.Sprintf("%.0f", ms(ready)), fmt.Sprintf("%.0f", ms(opened)), fmt.Sprintf("%.0f", ms(u.cpu)), mib(u.anon), mib(procField(t.pid, "status", "VmRSS:") << 10),
		}
		c.report.bar(opened < tailsLimit, fmt.Sprintf("CPU of a start with the tails of %.1f GB in %d shards", float64(st.Bytes)/1e9, st.Objects), "1 s", "%.0f ms", ms(opened))
		return nil
	})
	return row, errors.Join(err, os.RemoveAll(filepath.Join(c.dir, "data")), os.RemoveAll(dir))
}

// The names of the file and of its tail in the directory that writeTail is given.
const wholeName, tailName = "a.tsm", "a.tail"

// writeTail writes a file of a week of devops rows of some hosts and its tail, and leaves the
// tail.
func writeTail(ctx context.Context, dir string, hosts int) (tsm.Info, error) {
	name := filepath.Join(dir, wholeName)
	w, err := tsm.Create(vfs.OS, name, tsm.WriterOptions{Dense: true})
	if err != nil {
		return tsm.Info{}, err
	}
	if err := writeWeek(ctx, w, hosts); err != nil {
		return tsm.Info{}, errors.Join(err, w.Abort())
	}
	info, err := w.Finish()
	if err != nil {
		return info, err
	}
	r, err := tsm.Open(vfs.OS, name)
	if err == nil {
		err = errors.Join(r.WriteTail(vfs.OS, filepath.Join(dir, tailName)), r.Close())
	}
	return info, errors.Join(err, os.Remove(name))
}

// writeWeek writes a week of rows of some hosts.
func writeWeek(ctx context.Context, w *tsm.Writer, hosts int) error {
	fields := make([]column.Field, len(load.DevopsFields))
	cols := make([]column.Vector, len(fields))
	for f, key := range slices.Sorted(slices.Values(load.DevopsFields[:])) {
		fields[f] = column.Field{Key: key, Type: model.Integer}
		cols[f] = column.Vector{Type: model.Integer, Ints: make([]int64, tsm.ChunkRows)}
	}
	steps := int(week/time.Second) / load.DevopsInterval
	times := make([]int64, tsm.ChunkRows)
	g := load.NewDevops(100, steps/4)
	r := rand.New(rand.NewPCG(838, 18))
	for s := range hosts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.Series(model.SeriesID(s+1), fmt.Sprintf("cpu,hostname=host_%06d,region=eu-west-1,service=%d", s, s%20), fields); err != nil {
			return err
		}
		host, at := r.IntN(g.Hosts()), r.IntN(g.Steps()) // rows of the generator from anywhere on
		for first := 0; first < steps; first += tsm.ChunkRows {
			n := min(tsm.ChunkRows, steps-first)
			for i := range n {
				times[i] = load.DevopsTime(first + i)
				for f := range cols {
					cols[f].Ints[i] = g.Value(host, (at+first+i)%g.Steps(), f)
				}
			}
			part := make([]column.Vector, len(cols))
			for f := range cols {
				part[f] = column.Vector{Type: model.Integer, Ints: cols[f].Ints[:n]}
			}
			if err := w.Append(times[:n], part); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeShards makes a data directory with so many shards of a week, and puts the tail into each.
func (c *coldRun) makeShards(ctx context.Context, from string, info tsm.Info, shards int) error {
	var requests [][]byte // an entry of the log each, so that no two objects have the same name
	for i := range shards {
		requests = append(requests, fmt.Appendf(nil, "cpu,hostname=host_%06d %s=1i %d\n", i%1000, load.DevopsFields[0], load.DevopsTime(0)-int64(i)*int64(week)))
	}
	err := c.with(ctx, nil, func(_ *process, t *target) error {
		if err := t.create(ctx); err != nil {
			return err
		}
		if err := t.client.load(ctx, requests, c.connections); err != nil {
			return err
		}
		_, err := t.settle(ctx, mergeTime)
		return err
	})
	if err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(c.dir, "data", "db-*", "shard-*"))
	if err == nil && len(found) != shards {
		err = fmt.Errorf("%d shards, want %d", len(found), shards)
	}
	if err != nil {
		return err
	}
	for _, dir := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := placeTail(dir, filepath.Join(from, tailName), info); err != nil {
			return err
		}
	}
	return nil
}

// placeTail puts a tail in the place of the files of a shard.
func placeTail(dir, tail string, info tsm.Info) error {
	m, err := manifest.Read(vfs.OS, dir)
	if err != nil {
		return err
	}
	if len(m.TSM) == 0 {
		return fmt.Errorf("%s has no files", dir)
	}
	rec := m.TSM[0]
	old := filepath.Join(dir, rec.Name)
	rec.Name, rec.Size, rec.Checksum = manifest.TailName(m.Next), info.Size, info.Checksum
	m.Next++
	m.Edition++
	m.TSM = []manifest.File{rec}
	if err := copyFile(tail, filepath.Join(dir, rec.Name)); err != nil {
		return err
	}
	return errors.Join(m.Save(vfs.OS, dir), os.Remove(old))
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
