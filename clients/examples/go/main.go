// Command go writes a point with github.com/influxdata/influxdb1-client/v2, and reads it.
package main

import (
	"fmt"
	"log"
	"os"
	"time"

	influx "github.com/influxdata/influxdb1-client/v2"
)

func main() {
	c, err := influx.NewHTTPClient(influx.HTTPConfig{Addr: os.Args[1], Timeout: time.Minute}) // Username, Password
	if err != nil {
		log.Fatal(err)
	}
	batch, _ := influx.NewBatchPoints(influx.BatchPointsConfig{Database: "demo"})
	p, _ := influx.NewPoint("weather", map[string]string{"city": "oslo"}, map[string]any{"temperature": -3.5}, time.Now())
	batch.AddPoint(p)
	if err := c.Write(batch); err != nil {
		log.Fatal(err)
	}
	resp, err := c.Query(influx.NewQuery("SELECT last(temperature) FROM weather GROUP BY city", "demo", "ns"))
	if err != nil || resp.Error() != nil {
		log.Fatal(err, resp)
	}
	for _, s := range resp.Results[0].Series {
		fmt.Println(s.Tags["city"], s.Values[0][1])
	}
}
