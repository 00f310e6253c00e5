package paged

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

// A picture of a value table that was taken early says the same when the table
// has grown, and the order of the numbers is that of the texts.
func TestValueTable(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	var table TextTable
	numbers := map[string]uint32{}
	var texts []string
	var picture Texts
	for i := range 30_000 {
		text := fmt.Sprintf("host-%0*d", r.IntN(12), r.IntN(20_000))
		switch {
		case i%5000 == 4999:
			text = strings.Repeat(text, 1+r.IntN(60_000)/len(text))
		case i%97 == 0:
			text = text[:r.IntN(4)+1]
		}
		n, _ := table.Number(text)
		if have, ok := numbers[text]; ok && have != n || !ok && int(n) != len(texts)+1 {
			t.Fatalf("text %d has number %d, had %d; %d are given", i, n, have, len(texts))
		}
		if int(n) > len(texts) {
			texts = append(texts, text)
			numbers[text] = n
		}
		if i == 10_000 {
			picture = table.Texts
		}
	}
	for i, text := range texts {
		if got := table.Find(text); int(got) != i+1 {
			t.Fatalf("find %.20q: %d, want %d", text, got, i+1)
		}
		if i < picture.Count() && picture.Text(uint32(i+1)) != text {
			t.Fatalf("picture: number %d is %.20q, want %.20q", i+1, picture.Text(uint32(i+1)), text)
		}
	}
	if got := table.Find("another"); got != 0 || table.Find("") != 0 || picture.Text(0) != "" {
		t.Fatalf("find of an unknown text: %d", got)
	}
	var want, got []string
	for i := 0; i < len(texts); i += 2 {
		want = append(want, texts[i])
	}
	slices.Sort(want)
	for _, n := range table.Order(func(n uint32) bool { return n%2 == 1 }) {
		got = append(got, table.Text(n))
	}
	if !slices.Equal(got, want) {
		t.Fatal("the order of the numbers is not that of the texts")
	}
}

func TestPagedPicture(t *testing.T) {
	var p List[uint32]
	var pictures []List[uint32]
	for i := range 3*pageLen + 5 {
		if i%1021 == 0 || i < 20 {
			pictures = append(pictures, p)
		}
		p.Add(uint32(i))
	}
	pictures = append(pictures, p)
	for _, picture := range pictures {
		next := 0
		picture.Each(func(first int, page []uint32) {
			if first != next {
				t.Fatalf("page begins at %d, want %d", first, next)
			}
			for i, v := range page {
				if int(v) != first+i || picture.At(first+i) != v {
					t.Fatalf("element %d is %d", first+i, v)
				}
			}
			next += len(page)
		})
		if next != picture.n {
			t.Fatalf("%d elements, want %d", next, picture.n)
		}
	}
}

// TestNumbers finds a number in a list, also in copies of it as it was, and looks at few
// pages if the numbers came in order.
func TestNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	const n = 5*pageLen + 100
	for _, ascending := range []bool{true, false} {
		var list Numbers
		var all []uint32
		var copies []Numbers
		for i := range n {
			v := uint32(i / 10)
			if !ascending {
				v = uint32(r.IntN(n / 10))
			}
			if list.Add(v); i%1000 == 0 || i%pageLen >= pageLen-2 || i%pageLen < 2 {
				copies = append(copies, list)
			}
			all = append(all, v)
		}
		for _, c := range append(copies, list) {
			for _, v := range []uint32{all[r.IntN(c.n)], all[min(pageLen, c.n)-1], all[c.n-1]} {
				var want, got []int
				for i, x := range all[:c.n] {
					if x == v {
						want = append(want, i)
					}
				}
				pages := 0
				c.EachWith(v, func(first int, page []uint32) {
					pages++
					for i, x := range page {
						if x == v {
							got = append(got, first+i)
						}
					}
				})
				if !slices.Equal(got, want) {
					t.Fatalf("%d of %d numbers: at %v, want %v", v, c.n, got, want)
				}
				if ascending && pages > 3 { // two neighbors, and the last one
					t.Fatalf("%d of %d numbers: %d pages", v, c.n, pages)
				}
			}
		}
	}
}
