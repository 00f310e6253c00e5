// Command influxd2 is the server of InfluxDB 2.x without Flux, for tests. It keeps its files
// in a directory, listens on a free port of 127.0.0.1, prints its URL, and ends when its
// standard input ends.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/influxdata/influxdb/v2"
	"github.com/influxdata/influxdb/v2/cmd/influxd/launcher"
	"go.uber.org/zap"
)

// version is that of the module of InfluxDB in go.mod.
const version = "2.7.12"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: influxd2 DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string) error {
	influxdb.SetBuildInfo("v"+version, "", "")
	l := launcher.NewTestLauncherServer()
	if err := os.RemoveAll(l.Path); err != nil { // it made one
		return err
	}
	l.Path, l.Logger = dir, zap.NewNop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := l.Run(nil, ctx, func(o *launcher.InfluxdOpts) {
		o.NoTasks = true
	})
	if err != nil {
		return err
	}
	fmt.Println(l.URL())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	cancel()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	return l.Launcher.Shutdown(ctx)
}
