package config

import (
	"strings"
	"testing"
)

func TestInputSettings(t *testing.T) {
	f := func(want, text string, env ...string) {
		t.Helper()
		if _, err := loadConfig(Source{File: writeFile(t, text)}, env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s%v: %v, want %s", text, env, err, want)
		}
	}
	f("unknown key udp.bind-adress, did you mean udp.bind-address?", "[[udp]]\nbind-adress = \":1\"\n")
	f("unknown key influx", "[[influx]]\n")
	f("udp.1: invalid precision", "[[udp]]\n[[udp]]\nenabled = true\nprecision = \"us\"\n")
	f("udp.0: batch-size", "[[udp]]\nenabled = true\nbatch-pending = -1\n")
	f("udp.0: database \"../x\"", "[[udp]]\nenabled = true\ndatabase = \"../x\"\n")
	f("graphite.0: protocol", "[[graphite]]\nenabled = true\nprotocol = \"sctp\"\n")
	f("no measurement in template", "[[graphite]]\nenabled = true\ntemplates = [\"a.b\"]\n")
	f("graphite.0: tag", "", "TSDBD_GRAPHITE_0_ENABLED=true", "TSDBD_GRAPHITE_0_TAGS=a=b;c")
	f("collectd.0: security level", "[[collectd]]\nenabled = true\nsecurity-level = \"high\"\n")
	f("collectd.0: parse-multivalue-plugin", "[[collectd]]\nenabled = true\nparse-multivalue-plugin = \"merge\"\n")
	f("unknown variable TSDBD_UDP_0_DATABAS", "", "TSDBD_UDP_0_DATABAS=x")
	c, err := loadConfig(Source{}, []string{"TSDBD_UDP_0_ENABLED=true", "TSDBD_UDP_1_DATABASE=x", "TSDBD_UDP_1_BATCH_TIMEOUT=5s"})
	if err != nil || len(c.UDP) != 2 || !c.UDP[0].Enabled || c.UDP[1].Database != "x" || c.UDP[0].Database != "udp" || c.UDP[1].BatchSize != 5000 {
		t.Errorf("%+v %v", c, err)
	}
	other, err := loadConfig(Source{}, []string{"TSDBD_UDP_0_ENABLED=true"})
	if err != nil || len(c.Update(c)) > 0 {
		t.Error(c, err)
	}
	if changes := c.Update(other); len(changes) != 1 || changes[0].Key != "udp" || changes[0].Applied || len(c.UDP) != 2 {
		t.Errorf("%+v", changes)
	}
}
