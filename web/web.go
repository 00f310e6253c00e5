package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

// AssetPrefix begins the paths of all files but the document itself.
const AssetPrefix = "/ui/"

// about is the answer of / to who does not ask for HTML.
const about = `tsdbd, a time-series database
/write   takes line protocol
/query   takes InfluxQL
/health  tells whether the server is ready
A browser shows a page here. Documentation: docs/http-api.md
`

// security lets the page load nothing from elsewhere, run no script but its own
// files, and speak to no other server. No other page may show it in a frame.
const security = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// dist has the built files, each compressed with gzip.
//
//go:embed dist
var dist embed.FS

// file is a built file.
type file struct {
	kind   string // Content-Type
	tag    string // ETag
	packed []byte // gzip
}

// Page answers GET and HEAD of / and of the paths below AssetPrefix.
type Page struct {
	files map[string]file // by path
}

// New returns the page that is part of the program. It panics if the program was
// built with files that are not gzip, which no build makes.
func New() *Page {
	p := &Page{files: map[string]file{}}
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		packed, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(packed)
		name, ok := strings.CutSuffix(strings.TrimPrefix(name, "dist"), ".gz")
		if !ok {
			return fmt.Errorf("%s is not compressed", name)
		}
		if name == "/index.html" {
			name = "/"
		}
		kind := mime.TypeByExtension(path.Ext(name))
		switch {
		case name == "/":
			kind = "text/html; charset=utf-8"
		case strings.HasSuffix(name, ".js"):
			kind = "text/javascript; charset=utf-8"
		}
		p.files[name] = file{kind: kind, tag: `"` + hex.EncodeToString(sum[:12]) + `"`, packed: packed}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return p
}

// ServeHTTP answers one request.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path == AssetPrefix {
		Link(w, r)
		return
	}
	f, ok := p.files[r.URL.Path]
	if !ok {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	head.Add("Vary", "Accept-Encoding")
	if r.URL.Path == "/" {
		head.Add("Vary", "Accept")
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			head.Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(w, about)
			return
		}
		head.Set("Content-Security-Policy", security)
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cache-Control", "no-cache") // ask whether the tag is still the same
	} else {
		// The name of a built file has a hash of its content.
		head.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	head.Set("Content-Type", f.kind)
	head.Set("ETag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.packed
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		head.Set("Content-Encoding", "gzip")
	} else {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err == nil {
			body, err = io.ReadAll(z)
		}
		if err != nil {
			http.Error(w, "the page is damaged: "+err.Error(), http.StatusInternalServerError)
			return
		}
	}
	head.Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = w.Write(body) // net/http leaves it out of the answer to HEAD
}
