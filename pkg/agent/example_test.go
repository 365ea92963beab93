package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/flisk-go/flisk/pkg/agent"
	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// Memory is the agent's own state: any type that encodes to JSON.
type Memory struct {
	First string `json:"first"`
}

// runTurn is an agent that remembers how its conversation began.
func runTurn(_ context.Context, cp *agent.Checkpoint[Memory], input agent.Input) (agent.Reply, error) {
	if cp.Turn == 1 {
		cp.State.First = input.Text()
		return agent.Text("nice to meet you"), nil
	}
	return agent.Text(fmt.Sprintf("you began with %q, %d messages ago", cp.State.First, len(cp.Messages))), nil
}

// A turn needs no server: an agent's code is a function, and a test calls it.
func ExampleFunc() {
	question, _ := agent.NewMessage("user", "hello")
	answer, _ := agent.NewMessage("assistant", "nice to meet you")
	cp := &agent.Checkpoint[Memory]{
		Session:  "s",
		Turn:     2,
		Messages: []agent.Message{question, answer},
		State:    Memory{First: "hello"},
	}
	reply, err := runTurn(context.Background(), cp, agent.TextInput("and before?"))
	fmt.Println(reply.Value, err)
	// Output: you began with "hello", 2 messages ago <nil>
}

// An input may be any JSON, not only text.
func ExampleInput_Decode() {
	input := agent.Input(`{"order": 4711, "urgent": true}`)
	var request struct {
		Order  int
		Urgent bool
	}
	if err := input.Decode(&request); err != nil {
		fmt.Println(err)
	}
	fmt.Println(request.Order, request.Urgent)
	// Output: 4711 true
}

// What happened between the input and the reply can be kept as messages.
func ExampleNewMessage() {
	run := func(_ context.Context, cp *agent.Checkpoint[struct{}], input agent.Input) (agent.Reply, error) {
		result, err := agent.NewMessage("tool", map[string]any{"looked_up": input})
		if err != nil {
			return agent.Reply{}, err
		}
		cp.Messages = append(cp.Messages, result)
		return agent.Text("found it"), nil
	}
	cp := &agent.Checkpoint[struct{}]{Turn: 1}
	reply, err := run(context.Background(), cp, agent.TextInput("order 4711"))
	fmt.Println(cp.Messages[0].Text(), reply.Value, err)
	// Output: {"looked_up":"order 4711"} found it <nil>
}

// A server of one's own: here with a store that forgets, for a test.
func ExampleNewServer() {
	store := checkpoint.NewMemory()
	server := agent.NewServer(runTurn, store, turn.DefaultEnv(), slog.New(slog.DiscardHandler))
	defer server.Close()
	web := httptest.NewServer(server)
	defer web.Close()

	for range 2 {
		req, _ := http.NewRequest(http.MethodPost, web.URL+turn.TurnPath("bot"), strings.NewReader(`{"input": "hello"}`))
		req.Header.Set("Content-Type", turn.JSONType)
		req.Header.Set(turn.HeaderSession, "ann")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		var result turn.Result
		err = json.NewDecoder(resp.Body).Decode(&result)
		_ = resp.Body.Close()
		fmt.Println(result.Turn, turn.Text(result.Reply), err)
	}
	// Output:
	// 1 nice to meet you <nil>
	// 2 you began with "hello", 2 messages ago <nil>
}
