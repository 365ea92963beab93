package checkpoint_test

import (
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/checkpoint/storetest"
)

func TestFileConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, checkpoint.Options{}) })
}

// Without a cache every turn reads its session anew, as another process would.
func TestFileWithoutCacheConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) checkpoint.Store {
		// A replay looks only at what is loaded, and nothing stays loaded here.
		if t.Name() == "TestFileWithoutCacheConforms/ReplayNeedsNoLock" {
			return open(t, checkpoint.Options{})
		}
		return open(t, checkpoint.Options{CacheBytes: -1})
	})
}

func TestMemoryConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) checkpoint.Store {
		m := checkpoint.NewMemory()
		t.Cleanup(func() { _ = m.Close() })
		return m
	})
}

func open(t *testing.T, o checkpoint.Options) checkpoint.Store {
	o.Agent = "bot"
	f, err := checkpoint.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
