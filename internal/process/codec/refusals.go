package codec

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// Refused requests are logged so that operators see what is wrong with their settings, and
// that guessing goes on. Anyone who reaches the endpoint can make them, so the log has a bound.
const (
	noteEvery = time.Minute
	noteMost  = 10 // lines in that time
)

var errOrigin = errors.New("the origin is not one of CODEC_ORIGINS")

// refusals counts the refused requests of a period. It is safe for concurrent use.
type refusals struct {
	mu      sync.Mutex
	since   time.Time
	logged  int
	leftOut int
}

// next reports whether a refusal at this time is logged, and how many were left out before it.
func (r *refusals) next(now time.Time) (leftOut int, log bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.since) >= noteEvery {
		leftOut, r.since, r.logged, r.leftOut = r.leftOut, now, 0, 0
	}
	if r.logged >= noteMost {
		r.leftOut++
		return 0, false
	}
	r.logged++
	return leftOut, true
}

// note logs a refused request. The first line after a pause has the number of those left out.
func (e *endpoint) note(r *http.Request, why error) {
	leftOut, log := e.refused.next(e.d.Now())
	if !log {
		return
	}
	// The address is the proxy's where one ends TLS.
	e.d.Log.WarnContext(r.Context(), "decoding refused", "error", why, "address", r.RemoteAddr, "left_out", leftOut)
}
