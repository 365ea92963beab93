package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/flisk-go/flisk/pkg/fault"
)

// errOtherVersion says that the supervisor does not speak this control API.
var errOtherVersion = errors.New("the gateway's process was started by another version of flisk")

// errNoAnswer says that nobody serves the control socket, or not to the end. Which
// error its end gives depends on the moment, and net/http keeps one to itself.
var errNoAnswer = errors.New("no answer")

// client talks to the supervisor of a run directory. How long a call may take
// is up to its context: a stop takes as long as a drain.
type client struct{ http *http.Client }

func newClient(socket string) *client {
	return &client{&http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // no idle connection to keep a supervisor from ending
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
}

// call sends a request, and reads the answer into reply unless it is nil. A
// fault of the supervisor comes back as the fault it was.
func (c *client) call(ctx context.Context, path string, request, reply any) error {
	method, body := http.MethodGet, []byte(nil)
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return err
		}
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err // its URL is one that nobody has seen
		}
		return gone(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return gone(err)
	case resp.StatusCode == http.StatusNotFound:
		return errOtherVersion
	case resp.StatusCode != http.StatusOK:
		var w wireFault
		if err := json.Unmarshal(answer, &w); err != nil || w.Message == "" {
			return fmt.Errorf("the gateway's process answered %s: %q", resp.Status, answer)
		}
		return w.err()
	case reply == nil:
		return nil
	}
	return json.Unmarshal(answer, reply)
}

// gone is that the supervisor ended before it answered, or has ended already.
func gone(err error) error {
	f := fault.New(fault.Environment, "flisk status shows what is left; flisk up brings everything back",
		"the gateway's process (the supervisor, which also keeps the agents alive) ended before it answered: %w", err)
	f.Err = errors.Join(errNoAnswer, err)
	return f
}

// unreachable reports whether err means that nobody serves the control socket,
// as opposed to an answer that one did not like.
func unreachable(err error) bool { return errors.Is(err, errNoAnswer) }

func asFault(err error) (*fault.Fault, bool) { return errors.AsType[*fault.Fault](err) }
