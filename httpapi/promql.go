package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"tsdbd/httpapi/encode"
	"tsdbd/httpapi/promapi"
	"tsdbd/meta"
	"tsdbd/prom/engine"
	"tsdbd/query"
)

// promTarget returns the database and the policy of a request to Prometheus' API: of
// the path, the parameters db and rp, or the configuration. named is false for the
// latter.
func (h *Handler) promTarget(r *request) (db, rp string, named bool, err error) {
	form := r.Form
	if form == nil { // the body is no form
		if form, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			return "", "", false, badRequest("error parsing form values: " + err.Error())
		}
	}
	switch db = form.Get("db"); {
	case r.db != "":
		return r.db, r.rp, true, nil
	case db == "":
		return h.limits.Load().PrometheusDatabase, form.Get("rp"), false, nil
	}
	return db, form.Get("rp"), true, nil
}

// promStore stores a body in the database and the policy of promTarget. A policy that
// does not exist is a 404, because senders repeat a 500 forever.
func (h *Handler) promStore(w *response, r *request, t target) (err error) {
	if t.db, t.rp, _, err = h.promTarget(r); err != nil {
		return err
	}
	t.create = t.db == h.limits.Load().PrometheusDatabase
	if err = h.write(w, r, t); errors.Is(err, meta.ErrRetentionPolicyNotFound) {
		return &apiError{http.StatusNotFound, err.Error()}
	}
	return err
}

// promRoutes returns the routes of the endpoints of Prometheus' API that read.
func (h *Handler) promRoutes() []route {
	if h.opt.PromQL == nil {
		return nil
	}
	o := promapi.Options{Engine: h.opt.PromQL, Delete: h.opt.Delete, Build: h.opt.Version, Started: h.started}
	if h.opt.Catalog != nil {
		o.Explorer = h.opt.Explorer
	}
	api := promapi.New(o)
	var all []route
	for _, e := range api.Endpoints() {
		serve := h.promEndpoint(api, e)
		rt := route{path: e.Path, name: e.Name, access: byRoute, place: byStatement, gzip: true, reads: e.Path != "/api/v1/", fail: promError(e.WriteError)}
		rt.methods = methods{"GET": serve, "OPTIONS": status(http.StatusOK)}
		if e.Post {
			rt.methods["POST"] = serve
		}
		switch e.Rights {
		case promapi.Login:
			rt.access, rt.place = LoggedIn, query.ThisNode
		case promapi.Write:
			rt.place, rt.reads = query.Leader, false
			rt.methods = methods{"POST": serve, "PUT": serve}
		}
		all = append(all, rt)
	}
	return all
}

// promEndpoint returns the handle of an endpoint.
func (h *Handler) promEndpoint(api *promapi.API, e promapi.Endpoint) handle {
	return func(w *response, r *request) error {
		if err := h.readForm(w, r); err != nil {
			return err
		}
		if r.malformed != nil { // what is left out could be a selector or the database
			return badRequest("error parsing form values: " + r.malformed.Error())
		}
		if err := h.checkTexts(r); err != nil {
			return err
		}
		if e.Rights != promapi.Login && e.Rights != promapi.Write && h.opt.Cluster != nil {
			if answered, err := h.readElsewhere(w, r, query.AnyNode, nil); answered || err != nil {
				return err
			}
		}
		call := &promapi.Call{Request: r.Request, Rest: strings.TrimPrefix(r.path, e.Path), W: w}
		if err := h.promAccess(r, e, call); err != nil {
			return err
		}
		h.countClient(r, e.Rights == promapi.Write)
		opt := query.ExecuteOptions{User: r.userName()}
		ctx, done := h.follow(w, r, &opt)
		defer done()
		call.Request = r.WithContext(ctx)
		call.Out = encode.NewOutput(w, outputTo(ctx, w, &opt))
		defer call.Out.Free()
		a := &call.Access
		a.User, a.Account, a.Turn, a.Interrupt = opt.User, opt.Account, opt.Turn, opt.Interrupt
		var err error
		if a.Partial, err = r.flag("partial"); err != nil {
			return err
		}
		err = api.Serve(e, call)
		if err != nil && call.Out.AnySent() {
			panic(http.ErrAbortHandler) // the client must see that the answer is not complete
		}
		return err
	}
}

// checkTexts refuses a query and selectors that are longer than a query may be.
func (h *Handler) checkTexts(r *request) error {
	most := h.limits.Load().MaxQuerySize
	for _, name := range []string{"query", "match[]"} {
		for _, text := range r.Form[name] {
			if len(text) > most {
				return errQueryTooLong
			}
		}
	}
	return nil
}

// promAccess sets the database of a call if the user may read it.
func (h *Handler) promAccess(r *request, e promapi.Endpoint, call *promapi.Call) error {
	db, rp, named, err := h.promTarget(r)
	switch {
	case err != nil:
		return err
	case e.Rights == promapi.Login:
		return nil
	case e.Rights == promapi.ReadAny && !named:
		if !r.isAdmin() {
			return forbidden("without db only an administrator may ask")
		}
		for _, d := range h.opt.Catalog.Catalog().Databases {
			call.Databases = append(call.Databases, d.Name)
		}
		return nil
	}
	call.Databases = []string{db}
	call.Access = engine.Access{DB: db, RP: rp, MayLack: !named}
	if e.Rights == promapi.Write {
		if err := r.authorize(meta.WritePrivilege, "delete from", db); err != nil {
			return err
		}
		call.Access.RP, err = h.opt.Writer.RetentionPolicy(db, rp)
		return databaseError(err, db)
	}
	return r.authorize(meta.ReadPrivilege, "read from", db)
}

// promError returns what answers with an error in the form of Prometheus that write has.
func promError(write func(w http.ResponseWriter, status int, kind, message string)) func(http.ResponseWriter, *http.Request, error) {
	return func(w http.ResponseWriter, _ *http.Request, err error) {
		code, kind, message, ok := promapi.Status(err)
		if !ok {
			code, message = classify(err)
		}
		if code == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", retryAfterSeconds)
		}
		write(w, code, kind, message)
	}
}
