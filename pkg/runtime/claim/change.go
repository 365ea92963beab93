package claim

import (
	"context"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// Change is how every change of a project begins: alone, with a look at what there
// is, which refuses what must not be changed. The caller releases what it holds;
// with an error there is nothing to release.
func Change[L any](ctx context.Context, lock string, p runtime.Progress, look func() (L, error)) (l L, release func(), err error) {
	if release, err = Project(ctx, lock, p); err != nil {
		return l, nil, err
	}
	if l, err = look(); err != nil {
		release()
		return l, nil, err
	}
	return l, release, nil
}
