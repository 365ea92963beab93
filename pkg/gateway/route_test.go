package gateway

import (
	"io"
	"net/http"
	"testing"

	"github.com/flisk-go/flisk/pkg/gateway/routetest"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	table := stack.Routes{Hosts: []string{"localhost:8080", host}}
	for _, agent := range routetest.Agents() {
		e := backend(t, agent+"-1", routetest.Backend(agent).ServeHTTP)
		table.Agents = append(table.Agents, stack.Route{Agent: agent, MaxBody: 1 << 10, Endpoints: []stack.Endpoint{e}})
	}
	s := serve(t, Options{}, table)

	refused := func(t *testing.T, _ routetest.Case, res *http.Response) {
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		code := map[int]turn.Code{400: turn.BadRequest, 403: turn.HostRefused, 404: turn.NotFound}[res.StatusCode]
		wantProblem(t, res.StatusCode, res.Header, string(body), code)
	}
	for _, name := range append(table.Hosts, "LocalHost:8080") { // a host name has no case
		routetest.Run(t, s.addr, name, routetest.Cases(), refused)
	}
}

func TestEveryAnswerNamesItsTable(t *testing.T) {
	t.Parallel()
	nested := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(turn.HeaderRoutes, "another gateway's")
	}
	first, second := routes(backend(t, "bot-1", nested)), routes(backend(t, "bot-2", nested))
	s := serve(t, Options{}, first)
	for _, table := range []stack.Routes{first, second, first} {
		s.SetRoutes(table)
		for _, path := range []string{"/api/bot/turn", "/nowhere"} {
			r, err := s.do("GET", path, "")
			if err != nil {
				t.Fatal(err)
			}
			if got := r.header.Values(turn.HeaderRoutes); len(got) != 1 || got[0] != table.Hash() {
				t.Errorf("%s: %s %q, want %q", path, turn.HeaderRoutes, got, table.Hash())
			}
		}
	}
}

func TestNewRefusesUntilRoutesAreSet(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, stack.Routes{})
	s.post().wantProblem(t, turn.HostRefused)
}

func TestSetRoutesKeepsNothingOfTheCallers(t *testing.T) {
	t.Parallel()
	table := routes(backend(t, "bot-1", say("one")))
	s := serve(t, Options{}, table)
	table.Hosts[0], table.Agents[0].Agent, table.Agents[0].Endpoints[0].Address = "x", "y", "z"
	if r := s.post(); r.body != "one" {
		t.Errorf("status %d %q", r.status, r.body)
	}
}
