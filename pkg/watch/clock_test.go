package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// The tests below have a clock of their own: files and directories are real, and
// events come when the test says so. A save is a write and its event.

func (r *rig) saved(f *fake, rel, content string) {
	r.Helper()
	r.write(rel, content)
	f.tell(r.at(rel), fsnotify.Write)
	synctest.Wait() // until it was heard
}

// inBubble runs a test with a fake clock and fake events.
func inBubble(t *testing.T, test func(r *rig, f *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := newRig(t)
		r.watchWith(r.options(), f.opens)
		test(r, f)
	})
}

// after waits for a change and compares when it came.
func (r *rig) after(began time.Time, want time.Duration) {
	r.Helper()
	r.change()
	if took := time.Since(began); took != want {
		r.Errorf("the change came after %v, want %v", took, want)
	}
}

func TestC02_OneQuietPeriod(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig, f *fake) {
		began := time.Now()
		r.saved(f, "main.go", "one")
		r.after(began, Quiet)

		// Three writes, each within the period of the one before.
		began = time.Now()
		go func() {
			for i := range 3 {
				r.saved(f, "main.go", fmt.Sprint("write ", i))
				time.Sleep(60 * time.Millisecond)
			}
		}()
		r.after(began, 120*time.Millisecond+Quiet)
		synctest.Wait()

		// A change that is over when somebody asks is told at once.
		r.saved(f, "main.go", "long ago")
		time.Sleep(time.Minute)
		r.after(time.Now(), 0)
	})
}

// An editor that empties the file first, and is slow.
func TestC02_EmptyFileInTheMiddle(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig, f *fake) {
		began := time.Now()
		go func() {
			r.saved(f, "main.go", "")
			time.Sleep(Quiet + Quiet/2)
			r.saved(f, "main.go", "whole")
		}()
		c := r.change()
		if took := time.Since(began); c.Files[0].Size != int64(len("whole")) || took != Quiet+Quiet/2+Quiet {
			t.Errorf("the change came after %v with %+v", took, c.Files)
		}

		// One that stays empty is told after the second period.
		began = time.Now()
		r.saved(f, "main.go", "")
		r.after(began, 2*Quiet)
	})
}

// TestC07_ALimitForWhatNeverRests: a file that is written all the time.
func TestC07_ALimitForWhatNeverRests(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig, f *fake) {
		ctx, stop := context.WithCancel(r.Context())
		done := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(done)
			for i := 0; ctx.Err() == nil; i++ {
				r.save("main.go", fmt.Sprint("write ", i)) // at no time empty
				f.tell(r.at("main.go"), fsnotify.Create)
				time.Sleep(Quiet / 2)
			}
		}()
		r.after(began, Most)
		r.change() // begun at the same moment, or with the write after it
		if took := time.Since(began); took > 2*Most+Quiet {
			t.Errorf("the second change came after %v", took)
		}
		stop()
		<-done
	})
}

// Many files are given more time, because whoever changes them is not at the
// keyboard.
func TestC03_ManyFilesHaveMoreTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig, f *fake) {
		done := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(done)
			for i := range 300 { // for 15 s
				r.saved(f, fmt.Sprintf("assets/%d.txt", i), "x")
				r.saved(f, fmt.Sprintf("clerk/%d.txt", i), "x")
				r.saved(f, fmt.Sprintf("lib/%d.txt", i), "x")
				r.saved(f, fmt.Sprintf("lib/deep/%d.txt", i), "x")
				r.saved(f, fmt.Sprintf("lib/deep/er/%d.txt", i), "x")
				r.saved(f, fmt.Sprintf("%d.txt", i), "x")
				time.Sleep(50 * time.Millisecond)
			}
		}()
		r.after(began, Many)
		<-done
		r.change()
	})
}

// TestC03_Overflow: whatever was lost, the tree is read again, and everything is
// watched anew.
func TestC03_Overflow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig, f *fake) {
		for range 3 {
			opened := f.opened
			r.write("lost/deep/x.go", time.Now().String()) // no event tells of it
			r.write("main.go", time.Now().String())
			f.overflow()
			synctest.Wait()
			if got := len(r.change().Files); got != 2 {
				t.Errorf("%d files are in the change", got)
			}
			if f.opened == opened {
				t.Error("the directories are not watched anew")
			}
			r.saved(f, "lost/deep/x.go", "seen "+time.Now().String())
			r.expect("modified lost/deep/x.go")
		}
	})
}

// Git holds a lock during a checkout, and may pause for longer than the period. A
// lock that was left behind stops nobody.
func TestC03_GitIsWaitedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig, f *fake) {
		r.must(os.Mkdir(r.at(".git"), 0o755))
		r.w.gitDir = r.at(".git")
		r.write(".git/index.lock", "")
		r.must(os.Chtimes(r.at(".git/index.lock"), time.Now(), time.Now()))
		began := time.Now()
		r.saved(f, "main.go", "one")
		go func() {
			time.Sleep(5*Quiet - time.Millisecond)
			r.saved(f, "main.go", "two")
			r.must(os.Remove(r.at(".git/index.lock")))
		}()
		r.after(began, 6*Quiet-time.Millisecond)

		r.write(".git/index.lock", "")
		r.must(os.Chtimes(r.at(".git/index.lock"), time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)))
		began = time.Now()
		r.saved(f, "main.go", "three")
		r.after(began, Quiet)
	})
}

// A minute without a change costs nothing: the tree is not read.
func TestC06_IdleReadsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig, f *fake) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := r.w.Next(ctx, r.base)
			done <- err
		}()
		synctest.Wait()
		before := r.w.latest // Next looks once
		for range 29 {
			r.write("agent.log", time.Now().String())
			f.tell(r.at("agent.log"), fsnotify.Write)
			f.tell(r.at("compose.yaml"), fsnotify.Create)
			time.Sleep(2 * time.Second)
		}
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("there is a change, or %v", err)
		}
		if r.w.latest != before {
			t.Error("the tree was read while nothing happened")
		}
	})
}

// What happens during a reading, in a directory that the tree before does not
// know, and behind the reader's back, is in the same change.
func TestC07_ASaveDuringTheReading(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig, f *fake) {
		once := true
		f.fail = func(dir string) error {
			if dir == r.at("new2") && once {
				once = false
				r.write("new1/late.go", "x")
				f.tell(r.at("new1/late.go"), fsnotify.Create)
				synctest.Wait() // until it was heard
			}
			return nil
		}
		r.write("new1/x.go", "x")
		r.write("new2/x.go", "x")
		f.tell(r.at("new1"), fsnotify.Create)
		f.tell(r.at("new2"), fsnotify.Create)
		r.expect("added new1/late.go, added new1/x.go, added new2/x.go")
	})
}

// Whoever stops waiting takes nothing along that the next one would be told of.
func TestC07_AWaitThatIsGivenUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig, f *fake) {
		began := time.Now()
		r.saved(f, "main.go", "one")
		ctx, cancel := context.WithTimeout(r.Context(), Quiet/2)
		defer cancel()
		if _, err := r.w.Next(ctx, r.base); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("within half of a quiet period: %v", err)
		}
		r.after(began, Quiet)
	})
}

// A reading that finds other directories than are watched has them watched anew,
// whether or not an event tells of it.
func TestC03_DirectoriesThatWereReplaced(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(r *rig){
		"gone": func(r *rig) { r.must(os.RemoveAll(r.at("lib/deep"))) },
		"replaced": func(r *rig) {
			r.must(os.Rename(r.at("lib/deep"), r.at("old~")), os.MkdirAll(r.at("lib/deep/er"), 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig, f *fake) {
				opened := f.opened
				do(r)
				r.saved(f, "main.go", "changed")
				r.expect("removed lib/deep/er/lib.go, modified main.go")
				if f.opened != opened+1 {
					t.Errorf("it was opened %d times", f.opened-opened)
				}
			})
		})
	}
}
