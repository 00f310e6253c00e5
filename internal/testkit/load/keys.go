package load

import "fmt"

// HicardKeys returns the series keys of n series of the hicard workload, with one unique tag of six.
func HicardKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		h := uint32(i) * 2654435761
		keys[i] = fmt.Sprintf("m,app=app-%d,dc=dc%d,host=host_%07d,rack=rack-%d,region=region-%d,service=svc-%d",
			h%200, i%10, i, i/10%1000, i%40, h>>8%50)
	}
	return keys
}

// TSBSKeys returns series keys like those of the TSBS cpu-only load, about 170 bytes.
func TSBSKeys(n int) []string {
	keys := make([]string, n)
	pick := func(i, salt, n int) int { return int(uint32(i*31+salt) * 2654435761 >> 8 % uint32(n)) }
	for i := range keys {
		keys[i] = fmt.Sprintf("cpu,arch=x%d,datacenter=eu-central-1%c,hostname=host_%d,os=Ubuntu16.%d,rack=%d,region=eu-central-%d,service=%d,service_environment=%s,service_version=%d,team=%s",
			64+22*pick(i, 1, 2), 'a'+pick(i, 2, 3), i, pick(i, 3, 3), pick(i, 4, 100), pick(i, 5, 9), pick(i, 6, 20),
			[]string{"production", "staging", "test"}[pick(i, 7, 3)], pick(i, 8, 2), []string{"SF", "NYC", "LON", "CHI"}[pick(i, 9, 4)])
	}
	return keys
}
