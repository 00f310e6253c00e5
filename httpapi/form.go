package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"tsdbd/internal/body"
)

// readBody reads the body of r, plain or gzip. The caller must call Release.
func (h *Handler) readBody(w *response, r *request) (*body.Body, error) {
	if !body.Reads(r.Header) {
		return nil, &apiError{http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Encoding %.100q is not supported, send gzip or none", r.Header.Get("Content-Encoding"))}
	}
	return h.readRaw(w, r)
}

// readRaw is readBody for a body that the caller decodes, unless it is gzip.
func (h *Handler) readRaw(w *response, r *request) (*body.Body, error) {
	b, err := h.bodies.Read(w.ResponseWriter, r.Request, h.limits.Load().MaxBodySize)
	return b, bodyError(err)
}

// readForm fills r.Form from the URL and the body. It leaves out what is not a
// form, so that the error names the missing parameter. Only a body that is too
// large or incomplete is an error.
func (h *Handler) readForm(w *response, r *request) error {
	if r.form != nil {
		return nil // the request is answered again
	}
	if r.Method != http.MethodPost {
		r.malformed = r.ParseForm() // malformed pairs are left out
		return nil
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	form := err == nil && (media == "application/x-www-form-urlencoded" || media == "multipart/form-data")
	if !form {
		r.malformed = r.ParseForm() // the URL alone
		return nil
	}
	body, err := h.readBody(w, r)
	if err != nil {
		return err
	}
	if h.opt.Cluster != nil && !r.forwarded {
		r.form = body
	} else {
		defer body.Release()
	}
	r.Body = io.NopCloser(bytes.NewReader(body.Bytes()))
	if media == "multipart/form-data" {
		// The body is in memory already. A broken body is no error if the URL has
		// the query.
		if err := r.ParseMultipartForm(int64(body.Len()) + 1<<20); err != nil && !errors.Is(err, http.ErrNotMultipart) && r.Form.Get("q") == "" {
			return badRequest("error parsing form: " + err.Error())
		}
		return nil
	}
	r.Body = http.MaxBytesReader(nil, r.Body, int64(body.Len())+1) // lifts ParseForm's own limit
	r.malformed = r.ParseForm()                                    // malformed pairs are left out
	return nil
}

// flag returns a parameter that is true or false. It is true if any of its values is.
func (r *request) flag(name string) (bool, error) {
	for _, value := range r.Form[name] {
		if value != "true" && value != "false" && value != "" {
			return false, badRequest(fmt.Sprintf("%s must be true or false, not %q", name, value))
		}
	}
	return slices.Contains(r.Form[name], "true"), nil
}

// multipartQuery returns the statements of a file part named q.
func multipartQuery(r *request) (string, error) {
	files := r.MultipartForm.File["q"]
	if len(files) == 0 {
		return "", nil
	}
	f, err := files[0].Open()
	if err != nil {
		return "", badRequest("error parsing form: " + err.Error())
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return "", badRequest("error parsing form: " + err.Error())
	}
	return strings.TrimSpace(string(text)), nil
}

// bindParameters decodes the params parameter: a JSON object of values for
// $name placeholders. Numbers with a fraction or an exponent are floats.
func bindParameters(text string) (map[string]any, error) {
	if text == "" {
		return nil, nil
	}
	var params map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&params); err != nil {
		return nil, badRequest("error parsing query parameters: " + err.Error())
	}
	for name, v := range params {
		bound, err := bindValue(v)
		if _, isNumber := v.(json.Number); err != nil && isNumber {
			return nil, badRequest("error parsing json value: " + err.Error())
		}
		if err != nil {
			return nil, badRequest("error parsing query parameters: " + err.Error())
		}
		params[name] = bound
	}
	return params, nil
}

// bindValue returns a value that influxql.BindValue accepts. A json.Number becomes
// a float64 or an int64, also in the typed forms {"kind": value}. {"boolean": b}
// becomes b. A duration may be a number of nanoseconds.
func bindValue(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return v.Float64()
		}
		return v.Int64()
	case map[string]any:
		if len(v) != 1 {
			return v, nil // the parser refuses it by name
		}
		for kind, member := range v {
			n, ok := member.(json.Number)
			switch {
			case kind == "bool" || kind == "boolean":
				if b, ok := member.(bool); ok {
					return b, nil
				}
				return nil, errors.New("boolean literal must be a boolean value")
			case !ok:
			case kind == "float" || kind == "number":
				f, err := n.Float64() // an integer of any size is one as well
				if err != nil {
					return nil, err
				}
				v[kind] = f
			default:
				bound, err := bindValue(n)
				if err != nil {
					return nil, err
				}
				v[kind] = bound
			}
		}
	}
	return v, nil
}
