package docker

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

func TestC21_VersionIsNegotiated(t *testing.T) {
	t.Parallel()
	for announced, spoken := range map[string]string{"1.41": "1.41", "1.44": "1.44", "1.52": "1.51"} {
		fake := dockertest.Start(t, dockertest.Options{API: announced, ID: "E:" + announced, Arch: "arm64"})
		e, err := connect(t.Context(), Endpoint{Host: fake.Host()}, "")
		if err != nil {
			t.Errorf("API %s: %v", announced, err)
			continue
		}
		defer e.close()
		if f := e.facts; f.API != spoken || f.MaxAPI != announced || f.ID != "E:"+announced || f.Arch != "arm64" || f.OS != "linux" || f.Security[0] != "seccomp" {
			t.Errorf("API %s: %+v", announced, f)
		}
		if len(e.warnings) > 0 {
			t.Errorf("API %s: %q", announced, e.warnings)
		}
		if _, err := e.listContainers(t.Context(), "x"); err != nil {
			t.Error(err)
		}
		var ops []string
		for _, c := range fake.Calls() {
			ops = append(ops, c.Op)
		}
		if got := strings.Join(ops, " "); got != "Ping ServerVersion Info ContainerList" {
			t.Errorf("API %s: the calls are %s", announced, got)
		}
	}
}

func TestC21_FixedVersion(t *testing.T) {
	t.Parallel()
	fake := dockertest.Start(t, dockertest.Options{API: "1.44"})
	e, err := connect(t.Context(), Endpoint{Host: fake.Host()}, "1.42")
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	if e.facts.API != "1.42" || len(e.warnings) != 1 || !strings.Contains(e.warnings[0], "DOCKER_API_VERSION=1.42") {
		t.Errorf("%+v, %q", e.facts, e.warnings)
	}
	for _, version := range []string{"1.49", "1.20"} {
		_, err = connect(t.Context(), Endpoint{Host: fake.Host()}, version)
		mustFault(t, err, fault.Environment, "client version "+version+" is too")
		if f, ok := errors.AsType[*fault.Fault](err); !ok || !strings.Contains(f.Hint, "DOCKER_API_VERSION") {
			t.Errorf("the hint is %q", f.Hint)
		}
	}
}

func TestC21_EngineOfAnotherKind(t *testing.T) {
	t.Parallel()
	for _, c := range map[string]struct{ api, os, says string }{
		"old":     {"1.40", "linux", "speaks API 1.40, and flisk needs 1.41"},
		"Windows": {"1.41", "windows", "runs windows containers"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Api-Version", c.api)
			_, _ = w.Write([]byte(`{"ApiVersion": "` + c.api + `", "Os": "` + c.os + `"}`)) // the client is the test
		}))
		_, err := connect(t.Context(), Endpoint{Host: "tcp://" + server.Listener.Addr().String()}, "")
		server.Close()
		mustFault(t, err, fault.Environment, c.says)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	gone := "unix://" + m.dir + "/gone.sock"
	_, err := connect(t.Context(), Endpoint{Host: gone, Why: "DOCKER_HOST"}, "")
	mustFault(t, err, fault.Environment, gone, "DOCKER_HOST", "cannot reach")

	// One that takes the connection and says nothing.
	listener, err := net.Listen("unix", m.dir+"/mute.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = connect(ctx, Endpoint{Host: "unix://" + m.dir + "/mute.sock", Why: "DOCKER_HOST"}, "")
	mustFault(t, err, fault.Environment, "does not answer")

	if os.Getuid() != 0 { // root may use every socket
		closed := m.dir + "/closed"
		m.socket("closed/s")
		if err := os.Chmod(closed, 0); err != nil {
			t.Fatal(err)
		}
		_, err = connect(t.Context(), Endpoint{Host: "unix://" + closed + "/s"}, "")
		mustFault(t, err, fault.Environment, "you may not use")
	}
}

// An engine that goes away in the middle is not a refusal.
func TestConnectionBreaks(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{})
	r.fake.Fail(dockertest.Failure{Op: "VolumeCreate", Drop: true, After: true})
	_, err := r.e.createVolume(t.Context(), r.name("v"), r.labels())
	if err == nil {
		t.Fatal("there is no error")
	}
	if v := r.fake.Volumes(); len(v) != 1 {
		t.Errorf("the volumes are %q", v)
	}
}

// The certificates of a context are used: an engine that they do not vouch for
// is refused.
func TestC22_TLSConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		_, _ = w.Write([]byte(`{"ApiVersion": "1.44", "Os": "linux", "ID": "safe"}`)) // the client is the test
	}))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a refused handshake is no news
	dir := t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	host := "tcp://" + server.Listener.Addr().String()
	for name, tls := range map[string]certificates{"verified": {dir, true}, "not verified": {t.TempDir(), false}} {
		e, err := connect(t.Context(), Endpoint{Host: host, tls: tls}, "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if e.facts.ID != "safe" {
			t.Errorf("%s: %+v", name, e.facts)
		}
		_ = e.close()
	}
	_, err := connect(t.Context(), Endpoint{Host: host, tls: certificates{t.TempDir(), true}}, "")
	mustFault(t, err, fault.Environment, "ca.pem")
	_, err = connect(t.Context(), Endpoint{Host: host}, "")
	mustFault(t, err, fault.Environment)
}
