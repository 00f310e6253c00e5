package httpapi

import (
	"net/http"
	"strings"

	"tsdbd/meta"
)

// ping answers /ping, with the version if the parameter verbose is set.
func (h *Handler) ping(w *response, r *request) error {
	switch r.URL.Query().Get("verbose") {
	case "", "0", "false":
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return writeJSON(w, http.StatusOK, map[string]string{"version": InfluxVersion, "tsdbd": h.opt.Version})
}

// boards answers /api/boards.
func (h *Handler) boards(w *response, r *request) error {
	db, privilege, action := r.URL.Query().Get("db"), meta.WritePrivilege, "write to"
	if r.Method == http.MethodGet {
		privilege, action = meta.ReadPrivilege, "read from"
	}
	if db == "" {
		return errDatabaseRequired
	}
	if err := r.authorize(privilege, action, db); err != nil {
		return err
	}
	body, err := h.readBody(w, r)
	if err != nil {
		return err
	}
	defer body.Release()
	return h.opt.Boards.Serve(w, r.Request, db, strings.TrimPrefix(strings.TrimPrefix(r.path, "/api/boards"), "/"), body.Bytes())
}

// healthy reports whether the server can do its work, with a message for who asks r. Names
// of files and addresses of nodes are for users: where anyone may ask, for administrators.
func (h *Handler) healthy(r *request) (ok bool, message string) {
	const ready, because = "ready for queries and writes", ": the login of an administrator shows why"
	ok, message = true, ready
	if h.opt.Health != nil {
		var text string
		if ok, text = h.opt.Health.Health(); text != "" {
			message = text
		}
	}
	switch {
	case !h.opt.AuthEnabled || h.opt.PingAuth || h.byAdministrator(r):
		return ok, message
	case !ok:
		return ok, "not ready" + because
	case strings.HasPrefix(message, "degraded"):
		return ok, "degraded" + because
	}
	return ok, ready
}

// byAdministrator reports whether a request to a route that needs no login has that of an
// administrator.
func (h *Handler) byAdministrator(r *request) bool {
	u, err := h.logins.User(r.Request, h.opt.Catalog.Catalog())
	return err == nil && u.Admin
}

// health answers /health in the form of the v2 API.
// With the parameter damage it fails where queries fail because of damage: another server may
// have the points.
func (h *Handler) health(w *response, r *request) error {
	ok, message := h.healthy(r)
	ok = ok && !(r.URL.Query().Has("damage") && h.opt.Health != nil && h.opt.Health.Degraded())
	status, state := http.StatusOK, "pass"
	if !ok {
		status, state = http.StatusServiceUnavailable, "fail"
	}
	return writeJSON(w, status, map[string]any{"checks": []string{}, "message": message, "name": "influxdb", "status": state, "version": InfluxVersion, "tsdbd": h.opt.Version})
}
