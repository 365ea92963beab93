package docker

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

// TestHomeThatCannotBeWritten is the machine's fault, with a word on where that is,
// and doctor finds it.
func TestHomeThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	p, _ := onFake(t, dockertest.Options{})
	d := driverOf(p)
	finding := func() runtime.Finding {
		t.Helper()
		found := d.Examine(t.Context())
		i := slices.IndexFunc(found, func(f runtime.Finding) bool { return f.Subject == "FLISK_HOME" })
		if i < 0 {
			t.Fatalf("the findings are %+v", found)
		}
		return found[i]
	}
	if f := finding(); f.Level != runtime.Fine {
		t.Errorf("it can be written to: %+v", f)
	}
	file := filepath.Join(t.TempDir(), "file") // root may write everywhere but below one
	write(t, file, "")
	d.o.Home = filepath.Join(file, "home")
	d.place = placeOf(d.o.Home, d.o.Stack)
	if f := finding(); f.Level != runtime.Blocking || !strings.Contains(f.Hint, "FLISK_HOME") {
		t.Errorf("it cannot be: %+v", f)
	}
	_, err := d.Up(t.Context(), p.P)
	mustFault(t, err, fault.Environment, file)
	if f, ok := err.(*fault.Fault); !ok || !strings.Contains(f.Hint, "FLISK_HOME") {
		t.Errorf("%#v", err)
	}
}
