package agent

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// healthTimeout bounds the question: whoever runs the check has a bound as well,
// and should hear why it failed.
const healthTimeout = 3 * time.Second

// askHealth asks the agent that runs with env whether it answers.
func askHealth(env turn.Env) error {
	network, address := "tcp", env.Listen
	host := ""
	switch path, isUnix := strings.CutPrefix(env.Listen, "unix:"); {
	case isUnix:
		network, address, host = "unix", path, "localhost"
	case strings.HasPrefix(env.Listen, "fd:"):
		return fmt.Errorf("health: cannot tell the address of an inherited listener (FLISK_LISTEN=%s)", env.Listen)
	case env.Listen == "":
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort))
		host = address
	default:
		name, port, err := net.SplitHostPort(env.Listen)
		if err != nil {
			return fmt.Errorf("health: FLISK_LISTEN=%q: %w", env.Listen, err)
		}
		if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
			address = net.JoinHostPort("127.0.0.1", port)
		}
		host = net.JoinHostPort("127.0.0.1", port) // a name that is served on every TCP listener
	}
	client := http.Client{
		Timeout: healthTimeout,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		},
	}
	resp, err := client.Get("http://" + host + turn.HealthPath)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("health: the agent answered %s", resp.Status)
	}
	return nil
}
