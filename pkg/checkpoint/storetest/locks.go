package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
)

func acquireOrder(t T) {
	s := t.acquire("s")
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	const n = 8
	for i := range n {
		wg.Go(func() {
			own, err := t.store.Acquire(t.Context(), "s")
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			own.Release()
		})
		t.settle("s")
	}
	s.Release()
	wg.Wait()
	if !slices.IsSorted(order) || len(order) != n {
		t.Fatalf("order is %v", order)
	}
}

// settle returns when all goroutines wait, and checks that the session is held.
func (t T) settle(id string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if s, err := t.store.Acquire(ctx, id); err == nil {
		s.Release()
		t.Fatal("the session is free")
	}
}

func acquireGivesUp(t T) {
	s := t.acquire("s")
	why := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error, 1)
	go func() { _, err := t.store.Acquire(ctx, "s"); result <- err }()
	t.settle("s")
	cancel(why)
	t.wantErr(<-result, why)
	if _, err := t.store.Acquire(ctx, "free"); !errors.Is(err, why) {
		t.Fatalf("Acquire with an ended context: %v", err)
	}
	next := make(chan checkpoint.Session, 1)
	go func() { s, _ := t.store.Acquire(t.Context(), "s"); next <- s }()
	s.Release()
	(<-next).Release()
}

func independent(t T) {
	a := t.acquire("a")
	defer a.Release()
	t.turn("b", "", "in", "out")
}

func twentyAtOnce(t T) {
	const n = 20
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			s, err := t.store.Acquire(t.Context(), "s")
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Release()
			cp := s.Checkpoint()
			input := fmt.Sprint("in ", i)
			if _, err := s.Begin(checkpoint.Begin{Key: fmt.Sprint("k", i), Input: quoted(input)}); err != nil {
				t.Error(err)
				return
			}
			if _, err := s.Commit(checkpoint.Commit{Messages: cp.Messages, Add: pair(input, "out"), Reply: quoted("out")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	v, err := t.store.View(t.Context(), "s")
	t.must(err)
	if v.Turn != n || len(v.Messages) != 2*n {
		t.Fatalf("%d turns, %d messages", v.Turn, len(v.Messages))
	}
	seen := map[string]bool{}
	for i, turn := range v.Turns {
		if turn.Number != i+1 {
			t.Fatalf("turn %d has number %d", i+1, turn.Number)
		}
		seen[turn.Key] = true
	}
	if len(seen) != n {
		t.Fatalf("%d different keys", len(seen))
	}
}

func deleteWaits(t T) {
	t.turn("s", "", "in", "out")
	s := t.acquire("s")
	result := make(chan error, 1)
	go func() { result <- t.store.Delete(t.Context(), "s") }()
	t.settle("s")
	t.begin(s, "", "two")
	t.commit(s, "two", "dos")
	select {
	case err := <-result:
		t.Fatalf("deleted while it was held: %v", err)
	default:
	}
	s.Release()
	t.must(<-result)
	ctx, cancel := context.WithCancel(t.Context())
	held := t.acquire("t")
	defer held.Release()
	t.begin(held, "", "in")
	cancel()
	t.wantErr(t.store.Delete(ctx, "t"), context.Canceled)
}

func releaseTwice(t T) {
	s := t.acquire("s")
	s.Release()
	other := t.acquire("s")
	s.Release() // must not release the other's
	t.settle("s")
	if _, err := s.Begin(checkpoint.Begin{Input: quoted("x")}); err == nil {
		t.Fatal("a released session begins a turn")
	}
	if _, err := s.Commit(checkpoint.Commit{Reply: quoted("x")}); err == nil {
		t.Fatal("a released session commits")
	}
	other.Release()
}

func closed(t T) {
	ctx := t.Context()
	done := t.turn("s", "k", "in", "out")
	t.must(t.store.Close())
	t.must(t.store.Close())
	_, err := t.store.Acquire(ctx, "s")
	t.wantErr(err, checkpoint.ErrClosed)
	_, err = t.store.View(ctx, "s")
	t.wantErr(err, checkpoint.ErrClosed)
	_, err = t.store.Turn(ctx, done.ID)
	t.wantErr(err, checkpoint.ErrClosed)
	_, _, err = t.store.List(ctx, "", 1)
	t.wantErr(err, checkpoint.ErrClosed)
	t.wantErr(t.store.Delete(ctx, "s"), checkpoint.ErrClosed)
	if _, ok := t.store.Replay("s", "k"); ok {
		t.Fatal("a closed store replays")
	}
}

func closeWaits(t T) {
	s := t.acquire("s")
	waiter := make(chan error, 1)
	go func() { _, err := t.store.Acquire(t.Context(), "s"); waiter <- err }()
	t.settle("s")
	done := make(chan error, 1)
	go func() { done <- t.store.Close() }()
	t.wantErr(<-waiter, checkpoint.ErrClosed)
	select {
	case err := <-done:
		t.Fatalf("closed with a holder: %v", err)
	default:
	}
	t.begin(s, "", "in")
	t.commit(s, "in", "out") // a holder may finish
	s.Release()
	t.must(<-done)
}
