package cli

import (
	"context"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// follower passes on what the agents print, for as long as it is not stopped. The
// zero value follows nothing.
type follower struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// follow begins anew with a driver. A driver that cannot follow, because its
// engine went away, say, is asked again.
func (f *follower) follow(driver runtime.Driver, emit func(runtime.Line) error) {
	f.stop()
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	f.wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			_ = driver.Logs(ctx, runtime.LogOptions{Follow: true}, emit)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

func (f *follower) stop() {
	if f.cancel != nil {
		f.cancel()
		f.wg.Wait()
	}
}
