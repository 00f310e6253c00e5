// Package exposition reads the text form in which programs expose metrics to Prometheus,
// and that of OpenMetrics:
//
//	# HELP http_requests_total Requests.
//	# TYPE http_requests_total counter
//	http_requests_total{code="200",method="get"} 1027 1395066363000
//
// Read turns samples into rows of a batch and comments into metadata. A line that is
// wrong is left out, and the first of them is reported with its number. Exemplars are
// passed over.
//
// Writer writes samples in this form.
//
// The package does no input and output. Its functions are safe for concurrent use.
package exposition
