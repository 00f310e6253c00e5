package operations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"tsdbd/meta"
	"tsdbd/query/history"
	"tsdbd/services/recorder"
)

// The paths of the documents.
const (
	QueriesPath = "/api/queries"
	FiguresPath = "/api/figures"
	RightsPath  = "/api/rights"
)

// pastQuery is what the queries of a shape have cost.
type pastQuery struct {
	Query        string    `json:"query"`
	Language     string    `json:"language"`
	Database     string    `json:"database"`
	User         string    `json:"user"`
	Count        int64     `json:"count"`
	Errors       int64     `json:"errors"`
	TotalSeconds float64   `json:"total_seconds"`
	WorstSeconds float64   `json:"worst_seconds"`
	Rows         int64     `json:"rows"`
	Last         time.Time `json:"last"`
}

// Queries answers with what the queries since a time have cost, the most expensive first:
// to an administrator, or while logins are off, with those of all users, to others with
// their own.
func Queries(h *history.History) func(http.ResponseWriter, *http.Request, *meta.User) {
	return func(w http.ResponseWriter, r *http.Request, user *meta.User) {
		since := history.Kept
		if text := r.URL.Query().Get("since"); text != "" {
			var err error
			if since, err = time.ParseDuration(text); err != nil || since <= 0 || since > history.Kept {
				refuse(w, fmt.Sprintf("since must be a duration such as 15m, at most 1h, not %q", text))
				return
			}
		}
		var keep func(string) bool
		if user != nil && !user.Admin {
			keep = func(name string) bool { return name == user.Name }
		}
		now := time.Now()
		list, from, forgotten := h.Since(now.Add(-since), keep)
		all := make([]pastQuery, len(list))
		for i, q := range list {
			all[i] = pastQuery{
				q.Text, q.Language, q.Database, q.User, q.Count, q.Errors, q.Took.Seconds(), q.Worst.Seconds(), q.Rows, q.Last.UTC(),
			}
		}
		answer(w, r, struct {
			From      time.Time   `json:"from"`
			To        time.Time   `json:"to"`
			Forgotten int64       `json:"forgotten"`
			Queries   []pastQuery `json:"queries"`
		}{from.UTC(), now.UTC(), forgotten, all})
	}
}

// Figures answers with the figures of the last hour.
func Figures(s *recorder.Service) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		samples := s.Samples()
		times := make([]int64, len(samples.Times))
		for i, t := range samples.Times {
			times[i] = t.UnixMilli()
		}
		answer(w, r, struct {
			Times   []int64                       `json:"times"` // ms
			Figures map[recorder.Figure][]float64 `json:"figures"`
		}{times, samples.Figures})
	}
}

// Rights answers with what the user may do. Without logins everyone may do everything.
func Rights(logins bool) func(http.ResponseWriter, *http.Request, *meta.User) {
	return func(w http.ResponseWriter, r *http.Request, user *meta.User) {
		rights := struct {
			Logins    bool              `json:"logins"`
			User      string            `json:"user"`
			Admin     bool              `json:"admin"`
			Databases map[string]string `json:"databases"`
		}{Logins: logins, Admin: user == nil || user.Admin, Databases: map[string]string{}}
		if user != nil {
			rights.User = user.Name
			for db, p := range user.Privileges {
				if p != 0 {
					rights.Databases[db] = p.String()
				}
			}
		}
		answer(w, r, rights)
	}
}

// answer answers GET and HEAD with a document.
func answer(w http.ResponseWriter, r *http.Request, document any) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	body, err := json.Marshal(document)
	if err != nil { // a figure that is no number
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client is gone if this fails
}

// refuse answers that a parameter is wrong.
func refuse(w http.ResponseWriter, text string) {
	body, _ := json.Marshal(map[string]string{"error": text}) // a text is always marshaled
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(append(body, '\n')) // the client is gone if this fails
}
