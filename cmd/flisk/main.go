// Command flisk scaffolds durable agents, runs them and talks to them. See
// "flisk --help", and pkg/cli for everything behind it.
package main

import (
	"context"
	"os"

	"github.com/flisk-go/flisk/pkg/cli"
	"github.com/flisk-go/flisk/pkg/console"
)

func main() {
	environ := os.Environ()
	os.Exit(cli.Run(context.Background(), os.Args[1:], console.System(environ), environ))
}
