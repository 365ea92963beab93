package turn_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// filled sets every field of an Env to a value that is not its zero value, so
// that a field without a variable is noticed.
func filled() turn.Env {
	return turn.Env{
		Agent: "billing", Data: "/data", Listen: "unix:/run/a b.sock", Hosts: []string{"a:1", "b"}, Gateway: "http://127.0.0.1:1",
		Volume: "v", Runtime: "process", Code: "c", Verify: "n", Drain: time.Minute, Linger: time.Millisecond, TurnTimeout: time.Hour,
		OnBusy: turn.BusyReject, RequireSession: true, MaxBody: 17, Lifeline: 3,
	}
}

func lookup(environ []string) func(string) (string, bool) {
	m := map[string]string{}
	for _, e := range environ {
		k, v, _ := strings.Cut(e, "=")
		m[k] = v
	}
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

func TestEnvRoundTrip(t *testing.T) {
	t.Parallel()
	want := filled()
	for v, i := reflect.ValueOf(want), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Fatalf("the test leaves %s at its zero value", v.Type().Field(i).Name)
		}
	}
	got, err := turn.ParseEnv(lookup(want.Encode()))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read back %+v, %v\nwant %+v", got, err, want)
	}
	if n := len(want.Encode()); n != reflect.TypeFor[turn.Env]().NumField() || n != len(turn.EnvNames()) {
		t.Errorf("%d variables for %d fields", n, reflect.TypeFor[turn.Env]().NumField())
	}
}

func TestEnvDefaults(t *testing.T) {
	t.Parallel()
	got, err := turn.ParseEnv(lookup(nil))
	if err != nil || !reflect.DeepEqual(got, turn.DefaultEnv()) {
		t.Errorf("ParseEnv of nothing = %+v, %v", got, err)
	}
}

func TestEnvReportsEveryBadValue(t *testing.T) {
	t.Parallel()
	_, err := turn.ParseEnv(lookup([]string{
		"FLISK_AGENT=../x", "FLISK_DRAIN=soon", "FLISK_LINGER=-1s", "FLISK_ON_BUSY=maybe",
		"FLISK_REQUIRE_SESSION_ID=perhaps", "FLISK_MAX_BODY=0", "FLISK_LIFELINE=x",
	}))
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"AGENT", "DRAIN", "LINGER", "ON_BUSY", "REQUIRE_SESSION_ID", "MAX_BODY", "LIFELINE"} {
		if !strings.Contains(err.Error(), "FLISK_"+name) {
			t.Errorf("FLISK_%s is not reported in %q", name, err)
		}
	}
}

func TestParseHold(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]turn.Hold{
		"n:begun":        {Point: turn.PointBegun, For: turn.MaxHold},
		"n:begun:250":    {Point: turn.PointBegun, For: 250 * time.Millisecond},
		"n:replied:0":    {Point: turn.PointReplied},
		"n:begun:999999": {Point: turn.PointBegun, For: turn.MaxHold},
	} {
		if got, ok, err := turn.ParseHold(value, "n"); !ok || err != nil || got != want {
			t.Errorf("ParseHold(%q) = %+v, %v, %v, want %+v", value, got, ok, err, want)
		}
	}
	for _, value := range []string{"n:nowhere", "n:", "n", "n:begun:", "n:begun:-1", "n:begun:1s"} {
		if _, ok, err := turn.ParseHold(value, "n"); ok || err == nil {
			t.Errorf("ParseHold(%q) = %v, %v, want an error", value, ok, err)
		}
	}
	for _, c := range []struct{ value, nonce string }{{"n:begun", ""}, {":begun", ""}, {"m:begun", "n"}, {"", "n"}} {
		if _, ok, err := turn.ParseHold(c.value, c.nonce); ok || err != nil {
			t.Errorf("ParseHold(%q, %q) = %v, %v, want it ignored", c.value, c.nonce, ok, err)
		}
	}
}
