// Command agent is the agent of the suite: a conversation that shows whether it
// is whole.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/agent"
)

// memory is every input so far.
type memory struct {
	Inputs []string `json:"inputs"`
}

// runTurn answers with the number of the turn and all inputs. An input that is a
// duration takes that long. The first turn on a volume whose input is "exit" ends
// the process.
func runTurn(ctx context.Context, cp *agent.Checkpoint[memory], input agent.Input) (agent.Reply, error) {
	text := input.Text()
	if d, err := time.ParseDuration(text); err == nil {
		fmt.Println("a turn of", d, "begins")
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return agent.Reply{}, ctx.Err()
		}
	}
	if text == "exit" {
		mark := filepath.Join(os.Getenv("FLISK_DATA"), "exited")
		if f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_ = f.Close() // it is empty
			fmt.Println("it exits")
			os.Exit(1)
		}
	}
	cp.State.Inputs = append(cp.State.Inputs, text)
	return agent.Text(fmt.Sprintf("%d: %s; SAYS=%s", cp.Turn, strings.Join(cp.State.Inputs, " "), os.Getenv("SAYS"))), nil
}

// main serves. LATE is how long it takes before it begins to.
func main() {
	if len(os.Args) == 1 { // it is to serve
		if late, err := time.ParseDuration(os.Getenv("LATE")); err == nil {
			<-time.After(late)
		}
		switch os.Getenv("MODE") {
		case "exit":
			fmt.Println("the model key is missing")
			os.Exit(7)
		case "wait":
			fmt.Println("it waits for its model")
			stop := make(chan os.Signal, 1)
			signal.Notify(stop, syscall.SIGTERM)
			<-stop
			return
		}
	}
	agent.Main(runTurn)
}
