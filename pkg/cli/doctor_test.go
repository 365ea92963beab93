package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// examined is a driver that found these things.
func examined(findings ...runtime.Finding) *fakeDriver {
	d := observing(runtime.Observed{Volume: "flisk-shop-9f2c41d07a3e", Place: "/home/ann/.local/share/flisk/volumes/flisk-shop-9f2c41d07a3e"})
	d.examine = func() []runtime.Finding { return findings }
	return d
}

// toolchains are what differs from machine to machine.
var toolchains = regexp.MustCompile(`(?m)toolchain  .*$`)

func TestDoctorGolden(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, true)
	free := runtime.Finding{Subject: "port", Level: runtime.Fine, Text: "8080 is free"}
	taken := runtime.Finding{Subject: "port", Level: runtime.Blocking, Text: "port 8080 is in use by process 4711 (nc -lk 8080)", Hint: "stop that, or set gateway.port in flisk.yaml to a free one"}
	left := runtime.Finding{Subject: "supervisor", Level: runtime.Doubtful, Text: strings.Repeat("it was killed and ", 6) + "ended", Hint: "flisk up"}
	for name, driver := range map[string]*fakeDriver{"doctor": examined(free, left), "doctor-blocked": examined(taken)} {
		got := run{driver: driver, terminal: true}.do(t, "doctor", "-C", dir)
		if got.code != 3 || got.err != "" { // the agents have no source
			t.Errorf("%s: code %d, stderr %q", name, got.code, got.err)
		}
		golden(t, name, toolchains.ReplaceAllString(got.out, "toolchain  GO"))
	}
}

func TestDoctorJSON(t *testing.T) {
	t.Parallel()
	got := run{driver: examined()}.do(t, "doctor", "--json", "-C", t.TempDir())
	var v DoctorJSON
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != 3 || got.err != "" {
		t.Fatalf("got %+v (%v)", got, err)
	}
	if v.Ready || len(v.Findings) != 2 || v.Findings[0].Level != runtime.Blocking || v.Findings[0].Subject != "project" || v.Findings[0].Hint == "" {
		t.Errorf("got %+v", v)
	}
}

func TestConfigGolden(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, true)
	got := run{driver: examined(), terminal: true}.do(t, "config", "-C", dir)
	if got.code != 0 || got.err != "" {
		t.Errorf("got %+v", got)
	}
	golden(t, "config", got.out)
	got = run{driver: examined()}.do(t, "config", "-C", dir, "--json")
	golden(t, "config-json", got.out)
}
