package apptest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Point is a point of a test of moves. Its value is its time.
type Point struct {
	Host string
	Time int64
}

// Line returns the point in line protocol, as it is written to a measurement.
func (p Point) Line(name string) string {
	return fmt.Sprintf("%s,host=%s v=%di %d\n", name, p.Host, p.Time, p.Time)
}

// Place is the names that a point has.
type Place struct {
	Name      string // a or b
	Gen, Room string // values of tags
	Field     string
}

// Kinds is how many kinds of moves there are.
const Kinds = 6

// Move is a statement that gives points other names.
type Move struct {
	Kind  int
	Query string
	Apply func(host string, p Place) Place // what it makes of a place
}

// NthMove returns move n of a test. The moves of a test have all kinds in turn.
func NthMove(r *rand.Rand, n int) Move {
	from, to := "a", "b"
	if n/Kinds%2 == 1 {
		from, to = to, from
	}
	host, value, field := fmt.Sprintf("h%d", r.IntN(3)), fmt.Sprintf("g%d", n), fmt.Sprintf("f%d", n)
	m := Move{Kind: n % Kinds}
	var change func(host string, p *Place)
	switch m.Kind {
	case 0:
		m.Query = fmt.Sprintf("UPDATE %s SET gen = '%s'", from, value)
		change = func(_ string, p *Place) { p.Gen = value }
	case 1:
		m.Query = fmt.Sprintf("UPDATE %s DROP TAG room", from)
		change = func(_ string, p *Place) { p.Room = "" }
	case 2:
		m.Query = fmt.Sprintf("ALTER MEASUREMENT %s RENAME TAG gen TO room", from)
		change = func(_ string, p *Place) {
			if p.Gen != "" {
				p.Gen, p.Room = "", p.Gen
			}
		}
	case 3:
		m.Query = fmt.Sprintf("UPDATE %s SET gen = '%s' WHERE host = '%s'", from, value, host)
		change = func(h string, p *Place) {
			if h == host {
				p.Gen = value
			}
		}
	case 4:
		m.Query = fmt.Sprintf("ALTER MEASUREMENT %s RENAME FIELD v TO %s", from, field)
		change = func(_ string, p *Place) {
			if p.Field == "v" {
				p.Field = field
			}
		}
	case 5:
		m.Query = fmt.Sprintf("ALTER MEASUREMENT %s RENAME TO %s", from, to)
		change = func(_ string, p *Place) { p.Name = to }
	}
	m.Apply = func(host string, p Place) Place {
		if p.Name == from {
			change(host, &p)
		}
		return p
	}
	return m
}

// SelectPlaces reads all points of a test of moves; see Places.
const SelectPlaces = "SELECT * FROM a, b GROUP BY *"

// Places reads the answer to SelectPlaces, with times in nanoseconds. A point that is in
// two places is an error.
func Places(body string) (map[Point]Place, error) {
	var doc struct {
		Results []struct {
			Error  string
			Series []struct {
				Name    string
				Tags    map[string]string
				Columns []string
				Values  [][]*int64
			}
		}
	}
	if err := json.NewDecoder(strings.NewReader(body)).Decode(&doc); err != nil {
		return nil, fmt.Errorf("answer %.300s: %w", body, err)
	}
	if len(doc.Results) != 1 || doc.Results[0].Error != "" {
		return nil, fmt.Errorf("answer %.300s", body)
	}
	found := map[Point]Place{}
	for _, s := range doc.Results[0].Series {
		for _, row := range s.Values {
			p := Point{s.Tags["host"], *row[0]}
			for i, v := range row[1:] {
				if v == nil {
					continue
				}
				place := Place{s.Name, s.Tags["gen"], s.Tags["room"], s.Columns[i+1]}
				if other, twice := found[p]; twice {
					return nil, fmt.Errorf("%v is at %v and at %v", p, other, place)
				}
				if *v != p.Time {
					return nil, fmt.Errorf("%v at %v has the value %d", p, place, *v)
				}
				found[p] = place
			}
		}
	}
	return found, nil
}
