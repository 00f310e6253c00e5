package prom

import (
	"strings"
	"testing"
)

// TestNames holds the names of metrics, and that Splits finds each field by its name.
func TestNames(t *testing.T) {
	f := func(metric, want string) {
		t.Helper()
		var got []string
		for measurement, field := range Splits(metric) {
			got = append(got, measurement+"+"+field)
			if name := MetricName(measurement, field); name != metric {
				t.Errorf("%s+%s: %q, want %q", measurement, field, name, metric)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", metric, s, want)
		}
	}
	f("", "")
	f("up", "up+value up+__histogram__")
	f("cpu_usage_idle", "cpu_usage_idle+value cpu_usage_idle+__histogram__ cpu+usage_idle cpu_usage+idle")
	f("_a_", "_a_+value _a_+__histogram__")
	f("_a__b", "_a__b+value _a__b+__histogram__ _a+_b _a_+b")
	f("__", "__+value __+__histogram__")
	f("___", "___+value ___+__histogram__ _+_")
	f("température_größe", "température_größe+value température_größe+__histogram__ température+größe")
	f("cpu_value", "cpu_value+value cpu_value+__histogram__")
	f("cpu___start__", "cpu___start__+value cpu___start__+__histogram__ cpu_+_start__ cpu__+start__ cpu___start+_")
	if got := MetricName("cpu", StartField); got != "" {
		t.Errorf("the start timestamp is the metric %q", got)
	}
	// Every field of every measurement is found by the name of its metric.
	texts := []string{"a", "_", "__", "a_", "_a", "a_b", "value", "__histogram__", "x_value", "value_x"}
	for _, measurement := range texts {
		for _, field := range texts {
			times := 0
			for m, f := range Splits(MetricName(measurement, field)) {
				if m == measurement && f == field {
					times++
				}
			}
			if times != 1 {
				t.Errorf("%s and %s are found %d times", measurement, field, times)
			}
		}
	}
	for range Splits("a_b_c") {
		break
	}
}
