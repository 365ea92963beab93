package gateway

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// readBody reads a request's body whole: at most limit bytes, within a time.
// After a problem the connection is closed, for the rest of the body is still on
// it.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) ([]byte, *turn.Problem) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close")
		return nil, tooLarge(limit)
	}

	// Errors mean that the connection is broken, which the read then finds.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(within))

	// A length is a claim: memory for a long body is taken as it comes.
	var buf bytes.Buffer
	buf.Grow(int(max(0, min(r.ContentLength, 64<<10))) + bytes.MinRead)
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		w.Header().Set("Connection", "close")
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, tooLarge(limit)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, turn.Problemf(turn.BadRequest, "the body did not arrive within %s", within)
		}
		return nil, turn.Problemf(turn.BadRequest, "the body broke off")
	}
	_ = control.SetReadDeadline(time.Time{})
	return buf.Bytes(), nil
}

func tooLarge(limit int64) *turn.Problem {
	return turn.Problemf(turn.TooLarge, "the body is larger than %d bytes", limit)
}
