// Command agent is the agent of the suite: a conversation that shows whether it
// is whole.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/agent"
)

// memory is every input so far.
type memory struct {
	Inputs []string `json:"inputs"`
}

// runTurn answers with the number of the turn and all inputs. An input that is a
// duration takes that long.
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
	cp.State.Inputs = append(cp.State.Inputs, text)
	return agent.Text(fmt.Sprintf("%d: %s; SAYS=%s", cp.Turn, strings.Join(cp.State.Inputs, " "), os.Getenv("SAYS"))), nil
}

func main() {
	if os.Getenv("MODE") == "exit" && len(os.Args) == 1 {
		fmt.Println("the model key is missing")
		os.Exit(7)
	}
	agent.Main(runTurn)
}
