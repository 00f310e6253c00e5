// Command libflux writes a library in C with the names of libflux, which is in Rust, so
// that the server of InfluxDB 2.x links without a compiler for Rust. The library knows the
// types of what the packages of Flux register when the program starts. It refuses to parse
// and to run Flux.
//
//	libflux FLUX DIR
//
// FLUX is the directory of the module github.com/influxdata/flux. DIR gets types.h, and
// flux.pc for pkg-config.
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: libflux FLUX DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(flux, dir string) error {
	packages, err := names(filepath.Join(flux, "stdlib"))
	if err != nil {
		return err
	}
	var types bytes.Buffer
	types.WriteString("static char types[] = {")
	for i, b := range environment(packages) {
		if i%24 == 0 {
			types.WriteString("\n\t")
		}
		fmt.Fprintf(&types, "%d,", int8(b))
	}
	types.WriteString("\n};\n")
	if err := os.WriteFile(filepath.Join(dir, "types.h"), types.Bytes(), 0o644); err != nil {
		return err
	}
	pc := fmt.Sprintf("Name: flux\nDescription: the names of libflux\nVersion: 0\nCflags: -I%s/libflux/include\nLibs: -L${pcfiledir} -lflux\n", flux)
	return os.WriteFile(filepath.Join(dir, "flux.pc"), []byte(pc), 0o644)
}

// value is a name that a package of Flux has.
type value struct{ name, kind string }

var (
	builtin = regexp.MustCompile(`(?m)^builtin\s+(\w+)\s*:\s*([a-z]+|.)`)
	defined = regexp.MustCompile(`(?m)^(\w+)\s*=`)
)

// names returns the names in the packages below a directory.
func names(dir string) (map[string][]value, error) {
	out := map[string][]value{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".flux") || strings.HasSuffix(path, "_test.flux") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		in, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		in = filepath.ToSlash(in)
		for _, m := range builtin.FindAllSubmatch(b, -1) {
			out[in] = append(out[in], value{string(m[1]), string(m[2])})
		}
		for _, m := range defined.FindAllSubmatch(b, -1) {
			out[in] = append(out[in], value{string(m[1]), "("})
		}
		return nil
	})
	return out, err
}

// Numbers of Flux' schema of types, flux-core/src/semantic/flatbuffers/semantic.fbs.
const (
	monoBasic  = 1
	monoRecord = 4
	monoFun    = 5
	concrete   = 1
)

var basics = map[string]byte{"bool": 0, "int": 1, "uint": 2, "float": 3, "string": 4, "duration": 5, "time": 6, "regexp": 7, "bytes": 8}

// environment returns the types of all names: what is no basic type is a function without
// arguments.
func environment(packages map[string][]value) []byte {
	b := flatbuffers.NewBuilder(1 << 20)
	list := func(offsets []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
		b.StartVector(4, len(offsets), 4)
		for i := len(offsets) - 1; i >= 0; i-- {
			b.PrependUOffsetT(offsets[i])
		}
		return b.EndVector(len(offsets))
	}
	basic := func(kind byte) flatbuffers.UOffsetT {
		b.StartObject(1)
		b.PrependByteSlot(0, kind, 255)
		return b.EndObject()
	}
	var assignments []flatbuffers.UOffsetT
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		values := packages[name]
		var props []flatbuffers.UOffsetT
		for _, v := range values {
			kind, isBasic := basics[v.kind]
			var of flatbuffers.UOffsetT
			mono := byte(monoBasic)
			if isBasic {
				of = basic(kind)
			} else {
				mono = monoFun
				arguments, returned := list(nil), basic(basics["bool"])
				b.StartObject(3)
				b.PrependUOffsetTSlot(0, arguments, 0)
				b.PrependByteSlot(1, monoBasic, 0)
				b.PrependUOffsetTSlot(2, returned, 0)
				of = b.EndObject()
			}
			text := b.CreateString(v.name)
			b.StartObject(1)
			b.PrependUOffsetTSlot(0, text, 0)
			label := b.EndObject()
			b.StartObject(4)
			b.PrependByteSlot(0, concrete, 0)
			b.PrependUOffsetTSlot(1, label, 0)
			b.PrependByteSlot(2, mono, 0)
			b.PrependUOffsetTSlot(3, of, 0)
			props = append(props, b.EndObject())
		}
		all := list(props)
		b.StartObject(2)
		b.PrependUOffsetTSlot(0, all, 0)
		record := b.EndObject()
		b.StartObject(4)
		b.PrependByteSlot(2, monoRecord, 0)
		b.PrependUOffsetTSlot(3, record, 0)
		poly := b.EndObject()
		id := b.CreateString(name)
		b.StartObject(2)
		b.PrependUOffsetTSlot(0, id, 0)
		b.PrependUOffsetTSlot(1, poly, 0)
		assignments = append(assignments, b.EndObject())
	}
	all := list(assignments)
	b.StartObject(1)
	b.PrependUOffsetTSlot(0, all, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}
