package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.yaml.in/yaml/v4"
)

// The part of Traefik's configuration that is played. Keys beyond it are
// refused, as far as they decide where a request goes or what is answered.

type staticConfig struct {
	EntryPoints map[string]struct {
		Address   string         `yaml:"address"`
		Transport map[string]any `yaml:"transport"`
		HTTP      map[string]any `yaml:"http"`
		Forwarded map[string]any `yaml:"forwardedHeaders"`
	} `yaml:"entryPoints"`
	Providers struct {
		File struct {
			Directory string `yaml:"directory"`
			Watch     *bool  `yaml:"watch"`
		} `yaml:"file"`
		Throttle string `yaml:"providersThrottleDuration"`
	} `yaml:"providers"`
	Global    map[string]any `yaml:"global"`
	Log       map[string]any `yaml:"log"`
	AccessLog map[string]any `yaml:"accessLog"`
}

type dynamicConfig struct {
	HTTP struct {
		Routers           map[string]routerConfig     `yaml:"routers"`
		Middlewares       map[string]middlewareConfig `yaml:"middlewares"`
		Services          map[string]serviceConfig    `yaml:"services"`
		ServersTransports map[string]map[string]any   `yaml:"serversTransports"` // how, not where
	} `yaml:"http"`
}

type routerConfig struct {
	EntryPoints []string `yaml:"entryPoints"`
	Rule        string   `yaml:"rule"`
	Priority    int      `yaml:"priority"`
	Middlewares []string `yaml:"middlewares"`
	Service     string   `yaml:"service"`
}

type middlewareConfig struct {
	Headers *struct {
		Request  map[string]string `yaml:"customRequestHeaders"`
		Response map[string]string `yaml:"customResponseHeaders"`
	} `yaml:"headers"`
	IPAllowList *struct {
		SourceRange []string `yaml:"sourceRange"`
		Status      int      `yaml:"rejectStatusCode"`
	} `yaml:"ipAllowList"`
	Retry *struct {
		Attempts int      `yaml:"attempts"`
		Interval duration `yaml:"initialInterval"`
		Timeout  duration `yaml:"timeout"`
	} `yaml:"retry"`
}

type serviceConfig struct {
	LoadBalancer struct {
		ServersTransport   string         `yaml:"serversTransport"`
		PassHostHeader     *bool          `yaml:"passHostHeader"`
		ResponseForwarding map[string]any `yaml:"responseForwarding"`
		Servers            []struct {
			URL string `yaml:"url"`
		} `yaml:"servers"`
	} `yaml:"loadBalancer"`
}

type duration time.Duration

func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	parsed, err := time.ParseDuration(n.Value)
	*d = duration(parsed)
	return err
}

func decodeStrict(data []byte, into any) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	return decoder.Decode(into)
}

// gateway is a container of Traefik.
type gateway struct {
	e   *Engine
	c   *container
	dir string // of the dynamic configuration, on this machine

	mu    sync.Mutex
	log   *logWriter
	raw   []byte // what the table was made of, to see changes
	table *table
}

// playGateway starts a proxy on the published ports. e.mu is held.
func (e *Engine) playGateway(c *container, listeners []net.Listener) (*play, error) {
	static, err := e.static(c)
	if err != nil {
		return nil, err
	}
	g := &gateway{e: e, c: c, log: c.logs.writer(true)}
	if static.Providers.File.Directory == "" {
		return nil, notPlayed("a gateway without a directory of dynamic configuration")
	}
	if g.dir = e.hostPath(c, static.Providers.File.Directory); g.dir == "" {
		return nil, notPlayed("a dynamic configuration that is not mounted")
	}
	server := &http.Server{Handler: g}
	p := &play{done: make(chan struct{})}
	var once sync.Once
	end := make(chan syscall.Signal, 1)
	kill := make(chan struct{})
	p.signal = func(sig syscall.Signal) {
		if sig == syscall.SIGKILL {
			once.Do(func() { close(kill) })
			return
		}
		select {
		case end <- sig:
		default: // it is ending already
		}
	}
	for _, l := range listeners {
		e.wg.Go(func() { _ = server.Serve(l) }) // ends with the server
	}
	e.wg.Go(func() {
		defer close(p.done)
		select {
		case <-kill:
			p.code = 128 + int(syscall.SIGKILL)
			_ = server.Close() // the end is what was asked for
			return
		case <-end:
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_ = server.Shutdown(ctx) // ends with its requests, or is killed
		}()
		select {
		case <-drained:
		case <-kill:
			p.code = 128 + int(syscall.SIGKILL)
			cancel()
			_ = server.Close()
			<-drained
		}
	})
	return p, nil
}

// hostPath is where a path of a container is on this machine, "" when it is in
// no mount. e.mu is held.
func (e *Engine) hostPath(c *container, inside string) string {
	for _, p := range e.places(c) {
		if rest, ok := strings.CutPrefix(inside, p.inside); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(p.host, filepath.FromSlash(rest))
		}
	}
	return ""
}

// static reads what the container is configured with when it starts.
func (e *Engine) static(c *container) (staticConfig, error) {
	var s staticConfig
	path := "/etc/traefik/traefik.yml"
	for _, a := range append(slices.Clone(c.entrypoint()), c.command()...) {
		name, value, _ := strings.Cut(a, "=")
		switch strings.ToLower(name) {
		case "traefik", "/entrypoint.sh":
		case "--configfile":
			path = value
		default:
			return s, notPlayed("the gateway's argument " + a)
		}
	}
	candidates := []string{path}
	if base, ok := strings.CutSuffix(path, ".yml"); ok {
		candidates = append(candidates, base+".yaml")
	}
	for _, path := range candidates {
		host := e.hostPath(c, path)
		if host == "" {
			continue
		}
		data, err := os.ReadFile(host)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = decodeStrict(data, &s)
		}
		if err != nil {
			return s, refuse(http.StatusNotImplemented, "the gateway's %s: %v", path, err)
		}
		return s, nil
	}
	return s, notPlayed("a gateway without a static configuration")
}

// table is a dynamic configuration, ready to be asked.
type table struct {
	routers  []builtRouter // in the order in which they are asked
	config   dynamicConfig
	networks map[string][]*net.IPNet // of middlewares with a list of addresses
}

type builtRouter struct {
	name string
	routerConfig
	matches func(*http.Request) bool
}

// current reads the directory, and keeps the last table when what is there now
// is not one.
func (g *gateway) current() *table {
	g.mu.Lock()
	defer g.mu.Unlock()
	files, err := filepath.Glob(filepath.Join(g.dir, "*"))
	if err != nil {
		return g.table
	}
	slices.Sort(files)
	var raw []byte
	config := dynamicConfig{}
	for _, f := range files {
		if ext := filepath.Ext(f); ext != ".yaml" && ext != ".yml" {
			continue
		}
		data, err := os.ReadFile(f)
		if err != nil { // replaced just now
			return g.table
		}
		raw = append(append(raw, data...), 0)
	}
	if g.table != nil && bytes.Equal(raw, g.raw) {
		return g.table
	}
	g.raw = raw
	for part := range bytes.SplitSeq(raw, []byte{0}) {
		if len(bytes.TrimSpace(part)) == 0 {
			continue
		}
		if err := decodeStrict(part, &config); err != nil {
			g.say("cannot use the dynamic configuration: %v", err)
			return g.table
		}
	}
	t, err := newTable(config)
	if err != nil {
		g.say("cannot use the dynamic configuration: %v", err)
		return g.table
	}
	g.table = t
	return t
}

func (g *gateway) say(format string, args ...any) {
	_, _ = fmt.Fprintf(g.log, "ERR "+format+"\n", args...) // it is in memory
}

func newTable(config dynamicConfig) (*table, error) {
	t := &table{config: config, networks: map[string][]*net.IPNet{}}
	for name, m := range config.HTTP.Middlewares {
		if m.IPAllowList == nil {
			continue
		}
		for _, cidr := range m.IPAllowList.SourceRange {
			_, n, err := net.ParseCIDR(cidr)
			if err != nil {
				return nil, fmt.Errorf("middleware %s: %w", name, err)
			}
			t.networks[name] = append(t.networks[name], n)
		}
	}
	for name, r := range config.HTTP.Routers {
		match, err := parseRule(r.Rule)
		if err != nil {
			return nil, fmt.Errorf("router %s: %w", name, err)
		}
		if _, ok := config.HTTP.Services[r.Service]; !ok && r.Service != "noop@internal" {
			return nil, fmt.Errorf("router %s: the service %q does not exist", name, r.Service)
		}
		for _, m := range r.Middlewares {
			if _, ok := config.HTTP.Middlewares[m]; !ok {
				return nil, fmt.Errorf("router %s: the middleware %q does not exist", name, m)
			}
		}
		if r.Priority == 0 {
			r.Priority = len(r.Rule)
		}
		t.routers = append(t.routers, builtRouter{name, r, match})
	}
	slices.SortFunc(t.routers, func(a, b builtRouter) int {
		if a.Priority != b.Priority {
			return b.Priority - a.Priority
		}
		return strings.Compare(a.name, b.name)
	})
	return t, nil
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.e.until(r.Context(), func() bool { return !g.c.paused }) {
		return
	}
	t := g.current()
	if t == nil {
		http.NotFound(w, r)
		return
	}
	r.Header.Set("X-Forwarded-Host", r.Host)
	for _, router := range t.routers {
		if router.matches(r) {
			g.through(t, router, w, r)
			return
		}
	}
	http.NotFound(w, r)
}

// through passes a request through a router's middlewares to its service.
func (g *gateway) through(t *table, router builtRouter, w http.ResponseWriter, r *http.Request) {
	var attempts int
	var pause, limit time.Duration
	stamps := map[string]string{}
	for _, name := range router.Middlewares {
		m := t.config.HTTP.Middlewares[name]
		if m.Headers != nil {
			for k, v := range m.Headers.Request {
				if v == "" {
					r.Header.Del(k)
				} else {
					r.Header.Set(k, v)
				}
			}
			for k, v := range m.Headers.Response {
				stamps[k] = v
			}
		}
		if m.Retry != nil {
			attempts, pause, limit = m.Retry.Attempts, time.Duration(m.Retry.Interval), time.Duration(m.Retry.Timeout)
		}
		if m.IPAllowList != nil && !allowed(t.networks[name], r) {
			for k, v := range stamps {
				w.Header().Set(k, v)
			}
			status := m.IPAllowList.Status
			if status == 0 {
				status = http.StatusForbidden
			}
			http.Error(w, http.StatusText(status), status)
			return
		}
	}
	stamp := func(h http.Header) {
		for k, v := range stamps {
			h.Set(k, v)
		}
	}
	servers := t.config.HTTP.Services[router.Service].LoadBalancer.Servers
	if len(servers) == 0 {
		stamp(w.Header())
		http.Error(w, "no available server", http.StatusServiceUnavailable)
		return
	}
	next := rand.IntN(len(servers))
	pick := func() string { next++; return servers[next%len(servers)].URL }
	first, err := url.Parse(pick())
	if err != nil {
		stamp(w.Header())
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	deadline := time.Time{}
	if limit > 0 {
		deadline = time.Now().Add(limit)
	}
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		for tried := 1; ; tried++ {
			conn, err := g.dial(ctx, network, addr)
			if err == nil || tried >= attempts || !deadline.IsZero() && time.Now().After(deadline) {
				return conn, err
			}
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return nil, ctx.Err()
			}
			if u, err := url.Parse(pick()); err == nil {
				addr = u.Host
			}
		}
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(first)
			p.Out.Host = p.In.Host
			p.SetXForwarded()
		},
		Transport: transport, FlushInterval: -1,
		ModifyResponse: func(resp *http.Response) error { stamp(resp.Header); return nil },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			g.mu.Lock()
			g.say("%v", err)
			g.mu.Unlock()
			stamp(w.Header())
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "Bad Gateway") // the client left
		},
	}
	proxy.ServeHTTP(w, r)
}

// dial resolves names as the engine's DNS does: names of running containers that
// share a network with the gateway.
func (g *gateway) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) != nil {
		return nil, fmt.Errorf("dial tcp %s: connect: connection refused", addr) // the gateway's own container has no other listener
	}
	local := g.e.resolve(g.c, host)
	if local == "" {
		return nil, fmt.Errorf("dial tcp: lookup %s on 127.0.0.11:53: no such host", host)
	}
	return new(net.Dialer).DialContext(ctx, network, local)
}

func allowed(networks []*net.IPNet, r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(networks, func(n *net.IPNet) bool { return n.Contains(net.ParseIP(host)) })
}
