package httpapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"tsdbd/httpapi/encode"
)

// codesV2 are the codes of errors of the v2 API by status.
var codesV2 = map[int]string{
	http.StatusBadRequest: "invalid", http.StatusUnauthorized: "unauthorized", http.StatusForbidden: "forbidden",
	http.StatusNotFound: "not found", http.StatusMethodNotAllowed: "method not allowed", http.StatusRequestEntityTooLarge: "request too large",
	http.StatusUnsupportedMediaType: "unsupported media type", http.StatusUnprocessableEntity: "unprocessable entity",
	http.StatusServiceUnavailable: "unavailable",
}

// errorV2 answers with an error in the form of the v2 API. It has the text twice, because
// clients of InfluxDB 1.x read error.
func errorV2(w http.ResponseWriter, _ *http.Request, err error) {
	status, message := errorHead(w, err)
	body, _ := json.Marshal(struct { // texts do not fail
		Code    string `json:"code"`
		Message string `json:"message"`
		Error   string `json:"error"`
	}{cmp.Or(codesV2[status], "internal error"), message, message})
	w.Header().Set("Content-Type", encode.MediaJSON)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client is gone if this fails
}

// orgID and orgName are those of the one organization. tsdbd has none, but clients ask for
// the id of the organization that they are told to use before they create a bucket in it.
const (
	orgID   = "0000000000000001"
	orgName = "tsdbd"
)

// listOrgs answers /api/v2/orgs. The organization has the name that the client asks for,
// because every other request takes any organization too.
func (h *Handler) listOrgs(w *response, r *request) error {
	type links struct {
		Self string `json:"self"`
	}
	type org struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		Links links  `json:"links"`
	}
	q := r.URL.Query()
	all := []org{}
	if id := q.Get("orgID"); id == "" || id == orgID {
		all = append(all, org{orgID, cmp.Or(q.Get("org"), orgName), links{"/api/v2/orgs/" + orgID}})
	}
	return writeJSON(w, http.StatusOK, map[string]any{"links": links{"/api/v2/orgs"}, "orgs": all})
}

// ready answers /ready of the v2 API.
func (h *Handler) ready(w *response, r *request) error {
	if ok, message := h.healthy(r); !ok {
		return &apiError{http.StatusServiceUnavailable, message}
	}
	return writeJSON(w, http.StatusOK, map[string]any{"status": "ready", "started": h.started.UTC().Format(time.RFC3339Nano), "up": time.Since(h.started).String()})
}
