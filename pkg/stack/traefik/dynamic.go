package traefik

import (
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// How long a request is held while no replica takes connections, and how often
// one is tried meanwhile: after holdPause at first, later after up to twice that.
// Only what was not sent is tried again, so a turn cannot run twice.
//
// The time bridges what comes back by itself: an agent that ended is started by
// the engine after 0.1 s, and later for twice as long each time; measured, the
// fifth end in a row took 2.4 s. A replica that was killed by hand does not come
// back, and all that longer holding does is to tell its clients later.
const (
	holdTime  = 10 * time.Second
	holdPause = 100 * time.Millisecond
	holdTries = int(holdTime / holdPause)
)

// dialTime bounds one dial. The address of a container that is gone may answer
// nothing at all.
const dialTime = 250 * time.Millisecond

// The order in which routers are asked. The refusals enclose those of the
// agents.
const (
	firstOfAll  = 1000
	secondOfAll = 900
	readyPath   = 200
	agentPaths  = 100
	lastOfAll   = 1
)

// The names of middlewares and of the transport.
const (
	stampName     = "stamp"
	forbiddenName = "forbidden"
	noUpgradeName = "no-upgrade"
	notFoundName  = "not-found"
	holdName      = "hold"
	transportName = "agents"
)

type dynamic struct {
	HTTP dynamicHTTP `yaml:"http"`
}

type dynamicHTTP struct {
	Routers           map[string]router           `yaml:"routers"`
	Middlewares       map[string]middleware       `yaml:"middlewares"`
	Services          map[string]service          `yaml:"services,omitempty"`
	ServersTransports map[string]serversTransport `yaml:"serversTransports"`
}

type router struct {
	EntryPoints []string `yaml:"entryPoints"`
	Rule        string   `yaml:"rule"`
	Priority    int      `yaml:"priority"`
	Middlewares []string `yaml:"middlewares"`
	Service     string   `yaml:"service"`
}

type middleware struct {
	Headers     *headers     `yaml:"headers,omitempty"`
	IPAllowList *ipAllowList `yaml:"ipAllowList,omitempty"`
	Retry       *retry       `yaml:"retry,omitempty"`
}

type headers struct {
	CustomRequestHeaders  map[string]string `yaml:"customRequestHeaders"`
	CustomResponseHeaders map[string]string `yaml:"customResponseHeaders"`
}

type ipAllowList struct {
	SourceRange      []string `yaml:"sourceRange"`
	RejectStatusCode int      `yaml:"rejectStatusCode"`
}

type retry struct {
	Attempts        int      `yaml:"attempts"`
	InitialInterval duration `yaml:"initialInterval"`
	Timeout         duration `yaml:"timeout"`
}

type service struct {
	LoadBalancer loadBalancer `yaml:"loadBalancer"`
}

type loadBalancer struct {
	ServersTransport   string             `yaml:"serversTransport"`
	PassHostHeader     bool               `yaml:"passHostHeader"`
	ResponseForwarding responseForwarding `yaml:"responseForwarding"`
	Servers            []server           `yaml:"servers"`
}

type responseForwarding struct {
	FlushInterval duration `yaml:"flushInterval"`
}

type server struct {
	URL string `yaml:"url"`
}

type serversTransport struct {
	MaxIdleConnsPerHost int                `yaml:"maxIdleConnsPerHost"`
	ForwardingTimeouts  forwardingTimeouts `yaml:"forwardingTimeouts"`
}

type forwardingTimeouts struct {
	DialTimeout duration `yaml:"dialTimeout"`
}

// Dynamic is a route table. Every answer by it, a refusal too, carries its hash
// in the header turn.HeaderRoutes.
func Dynamic(routes stack.Routes) ([]byte, error) {
	d := dynamicHTTP{
		Routers: map[string]router{
			"forbidden": {
				Rule: "!" + exactHost(routes.Hosts), Priority: firstOfAll,
				Middlewares: []string{stampName, forbiddenName}, Service: nobody,
			},
			"no-upgrade": {
				Rule: "HeaderRegexp(`Upgrade`, `.`)", Priority: secondOfAll,
				Middlewares: []string{stampName, noUpgradeName}, Service: nobody,
			},
			"not-found": {
				Rule: "PathPrefix(`/`)", Priority: lastOfAll,
				Middlewares: []string{stampName, notFoundName}, Service: nobody,
			},
		},
		Middlewares: map[string]middleware{
			stampName: {Headers: &headers{
				CustomRequestHeaders: map[string]string{
					// An empty value removes a header. Without Connection nothing that it
					// lists is dropped on the way to an agent.
					"Connection": "",
					"Forwarded":  "", // a client's word: Traefik itself writes X-Forwarded-For
				},
				CustomResponseHeaders: map[string]string{turn.HeaderRoutes: routes.Hash()},
			}},
			forbiddenName: refuse(http.StatusForbidden),
			noUpgradeName: refuse(http.StatusBadRequest),
			notFoundName:  refuse(http.StatusNotFound),
			holdName:      {Retry: &retry{Attempts: holdTries, InitialInterval: duration(holdPause), Timeout: duration(holdTime)}},
		},
		Services: map[string]service{},
		ServersTransports: map[string]serversTransport{transportName: {
			// A connection that is used again can be closed by a stopping agent just
			// when the next request is written to it.
			MaxIdleConnsPerHost: -1,
			ForwardingTimeouts:  forwardingTimeouts{DialTimeout: duration(dialTime)},
		}},
	}
	ours := anyHost(routes.Hosts)
	for _, route := range routes.Agents {
		name := "agent-" + route.Agent
		if len(route.Endpoints) == 0 {
			// A service without servers answers 503 at once, and nobody is held.
			route.Endpoints = []stack.Endpoint{{Address: nowhere}}
		}
		balancer := loadBalancer{
			ServersTransport:   transportName,
			PassHostHeader:     true,
			ResponseForwarding: responseForwarding{FlushInterval: -1 * duration(time.Millisecond)}, // streams pass as they come
		}
		for _, e := range route.Endpoints {
			balancer.Servers = append(balancer.Servers, server{URL: "http://" + e.Address})
		}
		d.Services[name] = service{balancer}
		d.Routers[name] = router{
			Rule: ours + " && PathPrefix(`" + turn.AgentPath(route.Agent) + "`)", Priority: agentPaths,
			Middlewares: []string{stampName, holdName}, Service: name,
		}
		// "Not now" is an answer there, so it is not held.
		d.Routers["ready-"+route.Agent] = router{
			Rule: ours + " && Path(`" + turn.AgentReadyPath(route.Agent) + "`)", Priority: readyPath,
			Middlewares: []string{stampName}, Service: name,
		}
	}
	for name, r := range d.Routers {
		r.EntryPoints = []string{entryPoint}
		d.Routers[name] = r
	}
	return encode(dynamic{d})
}

// nobody is Traefik's own service that reaches nothing. What it would answer is
// never seen.
const nobody = "noop@internal"

// nowhere refuses connections: port 9 of the gateway's own container.
const nowhere = "127.0.0.1:9"

// refuse answers every request with a status: nobody has the one address that it
// lets through.
func refuse(status int) middleware {
	return middleware{IPAllowList: &ipAllowList{SourceRange: []string{"255.255.255.255/32"}, RejectStatusCode: status}}
}

// exactHost matches requests with one of these Host values, port and all. The
// Host matcher itself looks at no port; but Traefik has written the header as it
// came into X-Forwarded-Host, over whatever the client had written there.
func exactHost(hosts []string) string {
	var quoted []string
	for _, h := range hosts {
		quoted = append(quoted, regexp.QuoteMeta(h))
	}
	return "HeaderRegexp(`X-Forwarded-Host`, `(?i)^(" + strings.Join(quoted, "|") + ")$`)"
}

// anyHost matches requests with one of these Host values, whatever their port.
func anyHost(hosts []string) string {
	var rules []string
	for _, h := range hosts {
		name := h
		if host, _, err := net.SplitHostPort(h); err == nil {
			name = host
		}
		rule := "Host(`" + strings.Trim(name, "[]") + "`)"
		if !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	return "(" + strings.Join(rules, " || ") + ")"
}
