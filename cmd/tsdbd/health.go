package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/urfave/cli/v3"

	"tsdbd/exchange"
	"tsdbd/internal/version"
)

// healthTimeout is how long a server may take to answer.
const healthTimeout = 10 * time.Second

func healthCommand() *cli.Command {
	var client exchange.Client
	return &cli.Command{
		Name:  "health",
		Usage: "ask a running server whether it is well",
		Description: `tsdbd health asks a running server for /health and prints what it says. The exit code is 0 while the server takes writes, and 1 when it does not or does not answer.

Examples:
  tsdbd health                        # in a health check of containers, say
  tsdbd health -host https://db.example.org:8086`,
		Flags: clientFlags(&client, defaultHost),
		Action: action(func(ctx context.Context, c *cli.Command, _ []string, stdout, _ io.Writer) error {
			if err := noArguments(c); err != nil {
				return err
			}
			withScheme(&client)
			return health(ctx, client.URL, client.Username, client.Password, stdout)
		}),
	}
}

// health prints what /health answers; a server that is not well is an error.
func health(ctx context.Context, url, username, password string, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", version.UserAgent())
	if username != "" {
		req.SetBasicAuth(username, password)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct{ Status, Message, Error string }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); err != nil {
		return fmt.Errorf("read answer of %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, answer.Message+answer.Error)
	}
	if answer.Status != "pass" {
		return errors.New(answer.Message)
	}
	_, err = fmt.Fprintln(stdout, answer.Message)
	return err
}
