module github.com/influxdata/flux

go 1.26.0
