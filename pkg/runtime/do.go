package runtime

import (
	"cmp"
	"sync"
)

// Do calls group with the steps of the plan in order, neighbours of one action
// together, and ends with the first error.
func (p Plan) Do(group func(steps []Step) error) error {
	for len(p) > 0 {
		n := 1
		for n < len(p) && p[n].Do == p[0].Do {
			n++
		}
		if err := group(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Together does all steps at once and returns the error of the first of them
// that has one.
func Together(steps []Step, do func(Step) error) error {
	errs := make([]error, len(steps))
	var all sync.WaitGroup
	for i, s := range steps {
		all.Go(func() { errs[i] = do(s) })
	}
	all.Wait()
	return cmp.Or(errs...)
}
