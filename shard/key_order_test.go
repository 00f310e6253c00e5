package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testseed"
	"tsdbd/model"
)

func TestKeyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for _, runs := range []int{0, 1, 2, 3, 17, 400} {
		var all []keyed
		for range runs {
			run := make([]keyed, 1+r.IntN(40))
			for i := range run {
				run[i].key = fmt.Sprintf("m,host=%09d", r.IntN(1e9))
			}
			slices.SortFunc(run, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
			all = append(all, run...)
		}
		for i := range all {
			all[i].id = model.SeriesID(i + 1)
		}
		want := slices.Clone(all)
		slices.SortFunc(want, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
		o := orderByKey(all)
		if len(o.runs) > runs {
			t.Fatalf("%d runs were found in %d", len(o.runs), runs)
		}
		var got []keyed
		for {
			n := len(got)
			if got = o.next(got, 1+r.IntN(7)); len(got) == n {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d runs: not in the order of the keys", runs)
		}
	}
}
