package gateway

import (
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/flisk-go/flisk/pkg/turn"
)

// forwardedPrefix begins the headers by which proxies tell who asked them.
const forwardedPrefix = "X-Forwarded-"

// rewrite makes the request that an agent gets. Hop-by-hop headers are already
// gone; Host stays what the client sent.
func rewrite(pr *httputil.ProxyRequest) {
	pr.Out.URL.Scheme = "http"
	pr.Out.URL.Host = "agent" // not an address: a replica's transport dials one endpoint only
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery

	h := pr.Out.Header
	// A client that lists one of these in Connection has it taken for hop-by-hop.
	// Without them its turn would be another turn, or in another session.
	for _, name := range []string{turn.HeaderSession, turn.HeaderKey, "If-Match"} {
		if v, ok := pr.In.Header[name]; ok {
			h[name] = v
		}
	}
	for name := range h {
		// "x_session_id" is another header than X-Session-Id here and the same
		// one to a CGI-like reader behind: nobody may send both.
		if strings.Contains(name, "_") || strings.HasPrefix(name, forwardedPrefix) {
			delete(h, name)
		}
	}
	h.Del("X-Real-Ip")
	h.Del("Expect") // answered here: the body is already read
	pr.SetXForwarded()

	// net/http sends a request without a body again by itself when its header
	// map has one of these keys. The agent reads names in any case; the map is
	// exact.
	for _, name := range []string{turn.HeaderKey, "X-Idempotency-Key"} {
		if v, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = v
		}
	}
}

// stamp marks an agent's answer with the table that the request was sent by.
func stamp(res *http.Response) error {
	res.Header.Set(turn.HeaderRoutes, callOf(res.Request.Context()).routes)
	return nil
}
