package main

import (
	"github.com/urfave/cli/v3"

	coldcommand "tsdbd/cold/command"
	"tsdbd/exchange"
)

func coldCommand() *cli.Command {
	var client exchange.Client
	return coldcommand.New(&client, clientFlags(&client, defaultHost), func() { withScheme(&client) })
}
