package runtimetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/flisk-go/flisk/pkg/turn"
)

// Answer is what a client got for a turn.
type Answer struct {
	Status int
	Err    error
	Code   string // of the agent that answered
	Turn   int
	Reply  string
	Body   string
}

// Turn sends one turn, and returns whatever came of it.
func (p *Project) Turn(agent, session, key, input string) Answer {
	return Send(p.T.Context(), http.DefaultClient, p.Setup.Stack.Gateway.URL(), agent, session, key, input)
}

// MustTurn sends one turn, which is answered.
func (p *Project) MustTurn(session, input string) Answer {
	p.T.Helper()
	a := p.Turn("bot", session, "", input)
	if a.Err != nil || a.Status != http.StatusOK {
		p.T.Fatalf("turn %q of %s: %+v", input, session, a)
	}
	return a
}

// Send sends one turn. A key is left out when it is "".
func Send(ctx context.Context, client *http.Client, url, agent, session, key, input string) Answer {
	body, err := json.Marshal(map[string]string{"input": input})
	if err != nil {
		return Answer{Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+turn.TurnPath(agent), bytes.NewReader(body))
	if err != nil {
		return Answer{Err: err}
	}
	req.Header.Set("Content-Type", turn.JSONType)
	req.Header.Set(turn.HeaderSession, session)
	if key != "" {
		req.Header.Set(turn.HeaderKey, key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	text, err := io.ReadAll(resp.Body)
	a := Answer{Status: resp.StatusCode, Err: err, Code: resp.Header.Get(turn.HeaderCode), Body: string(text)}
	var said struct {
		Turn  int    `json:"turn"`
		Reply string `json:"reply"`
	}
	if err == nil && resp.StatusCode == http.StatusOK {
		a.Err = json.Unmarshal(text, &said)
		a.Turn, a.Reply = said.Turn, said.Reply
	}
	return a
}
