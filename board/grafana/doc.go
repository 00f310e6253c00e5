// Package grafana turns dashboards of Grafana into boards, and boards into dashboards.
//
// Import reads the JSON of a dashboard, as Grafana exports it or as its API answers. Export
// writes JSON that Grafana imports. Both return notes: what has no counterpart, by name. The
// looks of a panel (colours, fills, legends, tooltips) belong to the page and are not noted.
//
// The package knows no server. A wrong type in a dashboard counts as a member that is missing.
package grafana
