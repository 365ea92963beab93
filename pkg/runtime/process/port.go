package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
)

// nameProject adds to the error of [claim.Listen] which project of this user has the port,
// where it is one: its directory says more than a process of flisk.
func (d *Driver) nameProject(err error) error {
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	runs, _ := os.ReadDir(d.place.base) // what cannot be read names nobody
	for _, run := range runs {
		other := place{run: filepath.Join(d.place.base, run.Name())}
		s, err := other.settings()
		if err != nil || s.Gateway.Port != d.o.Stack.Gateway.Port {
			continue
		}
		id, recorded := other.supervisor()
		if alive, err := id.Alive(); !recorded || err != nil || !alive {
			continue
		}
		named := *f
		named.Message = fmt.Sprintf("port %d is in use by the project in %q", s.Gateway.Port, s.Serve.Dir)
		named.Hint = fmt.Sprintf("stop that (%s), or %s", runtime.DownOf(s.Serve.Dir, s.Instance), claim.OtherPort)
		return &named
	}
	return err
}
