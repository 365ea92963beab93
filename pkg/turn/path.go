package turn

import (
	"net/url"
	"strings"
)

// The agent's own endpoints, served beside the public ones and not routed by a
// gateway.
const (
	HealthPath = "/health"
	ReadyPath  = "/ready"
)

const apiPrefix = "/api/"

// AgentPath is the prefix of everything that belongs to one agent, with a
// trailing slash: "/api/bot/". A gateway routes by it.
func AgentPath(agent string) string { return apiPrefix + agent + "/" }

// TurnPath takes POST: one input, one reply.
func TurnPath(agent string) string { return AgentPath(agent) + "turn" }

// TurnsPath answers GET with a [Status] when the id of a turn follows it.
func TurnsPath(agent, id string) string { return AgentPath(agent) + "turns/" + url.PathEscape(id) }

// SessionsPath answers GET with a [SessionList].
func SessionsPath(agent string) string { return AgentPath(agent) + "sessions" }

// SessionPath answers GET with a [SessionView], and DELETE.
func SessionPath(agent, id string) string { return SessionsPath(agent) + "/" + url.PathEscape(id) }

// AgentReadyPath is readiness through the gateway: it answers what the agent's
// own [ReadyPath] answers.
func AgentReadyPath(agent string) string { return AgentPath(agent) + "ready" }

// AgentOf names the agent that a request path belongs to: the segment after
// "/api/". It reports false for any other path, and for an agent name that
// [ValidAgent] refuses.
func AgentOf(path string) (agent string, ok bool) {
	rest, ok := strings.CutPrefix(path, apiPrefix)
	if !ok {
		return "", false
	}
	agent, _, ok = strings.Cut(rest, "/")
	return agent, ok && ValidAgent(agent)
}
