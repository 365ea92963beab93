package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
)

func TestInterruptedSaysWhatIsSo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	waiting := fmt.Errorf("wait: %w", context.Canceled)
	broken, stuck := errors.New("the engine broke"), errors.New("cannot stop bot-1")
	for name, c := range map[string]struct {
		err    error
		back   WayBack
		says   string
		detail string
	}{
		"taken back":     {waiting, WayBack{}, "is stopped again", ""},
		"another error":  {broken, WayBack{}, "is stopped again", broken.Error()},
		"not taken back": {waiting, WayBack{Err: stuck}, "not all", stuck.Error()},
		"both":           {broken, WayBack{Err: stuck}, "not all", broken.Error() + "\n" + stuck.Error()},
		"no way back":    {broken, WayBack{Closed: true}, "no way back", broken.Error()},
	} {
		err := Interrupted(ctx, c.err, c.back)
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != fault.Interrupted || f.Detail != c.detail || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s: %+v", name, err)
			continue
		}
		if stopped := strings.Contains(f.Message, "is stopped again"); stopped != (c.back == WayBack{}) {
			t.Errorf("%s: %q", name, f.Message)
		}
		if !errors.Is(err, context.Canceled) || c.back.Err != nil && !errors.Is(err, c.back.Err) {
			t.Errorf("%s: the causes are lost", name)
		}
	}
}
