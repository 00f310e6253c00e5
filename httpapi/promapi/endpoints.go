package promapi

// Endpoints returns the table of endpoints.
func (a *API) Endpoints() []Endpoint {
	all := []Endpoint{
		{"/api/v1/query", "prom_query", Read, true, (*API).query},
		{"/api/v1/query_range", "prom_query_range", Read, true, (*API).queryRange},
		{"/api/v1/query_exemplars", "prom_query_exemplars", Read, true, (*API).queryExemplars},
		{"/api/v1/series", "prom_series", Read, true, (*API).series},
		{"/api/v1/labels", "prom_labels", Read, true, (*API).labelNames},
		{"/api/v1/label/", "prom_label_values", Read, false, (*API).labelValues},
		{"/api/v1/metadata", "prom_metadata", Read, false, (*API).metadata},
		{"/api/v1/format_query", "prom_format_query", Login, true, (*API).formatQuery},
		{"/api/v1/parse_query", "prom_parse_query", Login, true, (*API).parseQuery},
		{"/api/v1/rules", "prom_rules", Login, false, (*API).rules},
		{"/api/v1/alerts", "prom_alerts", Login, false, fixed(`{"alerts":[]}`)},
		{"/api/v1/targets", "prom_targets", Login, false, fixed(`{"activeTargets":[],"droppedTargets":[],"droppedTargetCounts":null}`)},
		{"/api/v1/targets/metadata", "prom_targets", Login, false, (*API).targetMetadata},
		{"/api/v1/targets/relabel_steps", "prom_targets", Login, false, (*API).relabelSteps},
		{"/api/v1/scrape_pools", "prom_targets", Login, false, fixed(`{"scrapePools":null}`)},
		{"/api/v1/scrape_pools/config", "prom_targets", Login, false, (*API).scrapePoolConfig},
		{"/api/v1/alertmanagers", "prom_alerts", Login, false, fixed(`{"activeAlertmanagers":[],"droppedAlertmanagers":[]}`)},
		{"/api/v1/notifications", "prom_status", Login, false, fixed("null")},
		{"/api/v1/status/walreplay", "prom_status", Login, false, fixed(`{"min":0,"max":0,"current":0}`)},
		{"/api/v1/admin/tsdb/delete_series", "prom_delete_series", Write, true, (*API).deleteSeries},
		{"/api/v1/admin/tsdb/clean_tombstones", "prom_delete_series", Write, true, (*API).cleanTombstones},
		{federatePath, "prom_federate", Read, false, (*API).federate},
		{"/api/v1/", "prom_missing", Login, true, (*API).missing},
		{"/api/v1/status/buildinfo", "prom_status", Login, false, (*API).buildInfo},
		{"/api/v1/status/runtimeinfo", "prom_status", Login, false, (*API).runtimeInfo},
		{"/api/v1/status/config", "prom_status", Login, false, fixed(`{"yaml":""}`)},
		{"/api/v1/status/flags", "prom_status", Login, false, (*API).flags},
	}
	if a.opt.Explorer != nil {
		all = append(all, Endpoint{"/api/v1/status/tsdb", "tsdb_status", ReadAny, false, (*API).tsdbStatus})
	}
	return all
}
