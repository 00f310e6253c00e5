package httpapi

import "net/http"

// ping answers /ping, with the version if the parameter verbose is set.
func (h *Handler) ping(w *response, r *request) error {
	switch r.URL.Query().Get("verbose") {
	case "", "0", "false":
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return writeJSON(w, http.StatusOK, map[string]string{"version": InfluxVersion})
}

// health answers /health in the form of the v2 API.
func (h *Handler) health(w *response, _ *request) error {
	status, state, message := http.StatusOK, "pass", "ready for queries and writes"
	if h.opt.Health != nil {
		ok, text := h.opt.Health.Health()
		if text != "" {
			message = text
		}
		if !ok && h.opt.AuthEnabled && !h.opt.PingAuth {
			message = "not ready, see the server's log" // only users may see details
		}
		if !ok {
			status, state = http.StatusServiceUnavailable, "fail"
		}
	}
	return writeJSON(w, status, map[string]any{"checks": []string{}, "message": message, "name": "influxdb", "status": state, "version": InfluxVersion})
}
