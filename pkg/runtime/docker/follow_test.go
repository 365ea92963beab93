package docker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestFollowRests: while nothing changes, a follow asks the engine next to nothing,
// and what comes then is there at once all the same.
func TestFollowRests(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		f := beginFollow(t, p)
		p.MustTurn("s1", "1ms")
		f.await("a turn of 1ms begins")
		<-time.After(changeTime + followEvery) // what is tested is what time does
		p.Restart()
		p.MustTurn("s1", "2ms")
		asked := time.Now()
		f.await("a turn of 2ms begins")
		if took, limit := time.Since(asked), 5*followEvery; took > limit {
			t.Errorf("a line of a new container came after %s, of at most %s", took, limit)
		} else {
			t.Logf("a line of a new container came after %s, of at most %s", took, limit)
		}
	})
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	f := beginFollow(t, p)
	p.MustTurn("s1", "1ms")
	f.await("a turn of 1ms begins")
	<-time.After(changeTime + followEvery)
	fake.ResetCalls()
	<-time.After(changeTime)
	if calls := fake.Calls(); len(calls) > 4 { // one look may fall into it
		t.Errorf("in %s of nothing the engine was asked %d times", changeTime, len(calls))
	}
}

// TestFollowWithoutEvents: an engine that tells of no changes is looked at.
func TestFollowWithoutEvents(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	fake.Fail(dockertest.Failure{Op: "Events"})
	p.Up()
	f := beginFollow(t, p)
	p.MustTurn("s1", "2ms")
	f.await("a turn of 2ms begins")
	<-time.After(changeTime + followEvery)
	p.Restart()
	p.MustTurn("s1", "1ms")
	asked := time.Now()
	f.await("a turn of 1ms begins")
	if took, limit := time.Since(asked), 5*followEvery; took > limit {
		t.Errorf("a line of a new container came after %s, of at most %s", took, limit)
	}
}

// followed are the lines of a follow that ends with the test.
type followed struct {
	t     *testing.T
	texts chan string
}

func beginFollow(t *testing.T, p *runtimetest.Project) *followed {
	t.Helper()
	f := &followed{t, make(chan string, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	driver := p.Driver()
	go func() {
		ended <- driver.Logs(ctx, runtime.LogOptions{Tail: -1, Follow: true}, func(l runtime.Line) error {
			f.texts <- l.Text
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the follow ended with %v", err)
		}
	})
	return f
}

func (f *followed) await(text string) {
	f.t.Helper()
	for {
		select {
		case got := <-f.texts:
			if strings.Contains(got, text) {
				return
			}
		case <-time.After(20 * time.Second):
			f.t.Fatalf("%q is not in the log", text)
		}
	}
}
