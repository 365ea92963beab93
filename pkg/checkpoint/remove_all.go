package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// RemovalReport says what a removal did.
type RemovalReport struct {
	Removed []string `json:"removed"`           // the ids of sessions that are gone
	Missing string   `json:"missing,omitempty"` // the id of one that was not there: nothing was removed
}

// RemoveAll removes sessions of the agent of o from the volume in a directory,
// one after another, through their locks. One that is not there is why none is
// removed; one that cannot be read can go. What was removed before an error is
// gone.
//
// Errors: [ErrNoSession], those of [Open] and of [Store.Delete].
func RemoveAll(ctx context.Context, dir string, ids []string, o Options) (RemovalReport, error) {
	report := RemovalReport{Removed: []string{}}
	r, err := OpenReader(dir, o.Agent)
	if errors.Is(err, fs.ErrNotExist) {
		report.Missing = ids[0]
		return report, sessionError(ids[0], ErrNoSession)
	}
	if err != nil {
		return report, err
	}
	defer r.Close()
	for _, id := range ids {
		_, err := r.View(ctx, id)
		if _, damaged := errors.AsType[*DamagedError](err); err == nil || damaged {
			continue
		}
		if errors.Is(err, ErrNoSession) {
			report.Missing = id
		}
		return report, err
	}
	store, err := Open(dir, o)
	if err != nil {
		return report, err
	}
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			continue
		}
		err := store.Delete(ctx, id)
		if err != nil && !errors.Is(err, ErrNoSession) { // gone since: as it was wanted
			return report, errors.Join(fmt.Errorf("%d of %d sessions were removed: %w", len(report.Removed), len(ids), err), store.Close())
		}
		report.Removed = append(report.Removed, id)
	}
	return report, store.Close()
}
