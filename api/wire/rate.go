package wire

import (
	"net/http"
	"strconv"
	"time"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
)

// Addresses counts the requests that end without a valid credential, by the address they come
// from. See never counts.
type Addresses interface {
	See(address string, now time.Time) rate.State
	Count(address string, now time.Time) rate.State
}

// SetRate notes what an authenticated request has found in the windows that it counts in. The
// response has it in its headers.
func (c *Call) SetRate(found rate.State) { c.rate = &found }

// Rate is what SetRate has noted.
func (c *Call) Rate() rate.State {
	if c.rate == nil {
		return rate.State{}
	}
	return *c.rate
}

// probe reports whether the request is of a load balancer that asks how the process is. These
// come from few addresses, and are never refused.
func probe(r *http.Request) bool { return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" }

// limits is the rate limits of one request.
type limits struct {
	addresses Addresses
	address   string
	now       func() time.Time
	call      *Call
	free      bool // it is never counted
}

// refuse returns RATE_LIMITED where the window of the address is full, otherwise nil. It is
// asked before anything is read, so that a flood of wrong credentials costs no query.
func (l *limits) refuse() error {
	found := l.addresses.See(l.address, l.now())
	if l.free || !found.Refused {
		return nil
	}
	l.call.SetRate(found)
	w := found.Tightest()
	f := fault.Newf(fault.CodeRateLimited,
		"The limit of %d requests a minute without a valid credential from one address is reached. Try again in %d s.", w.Limit, w.Reset())
	f.RetryAfter = found.RetryAfter()
	return f
}

// head writes the headers when the response begins. A request that has not authenticated by then
// counts for its address.
//
// A failure of ours counts for nobody: the caller may have a credential, and tries again.
func (l *limits) head(status int, h http.Header) {
	found := l.call.rate
	if found == nil {
		count := l.addresses.Count
		if l.free || status >= http.StatusInternalServerError {
			count = l.addresses.See
		}
		of := count(l.address, l.now())
		found = &of
	}
	w := found.Tightest()
	h.Set("RateLimit-Policy", found.Policy())
	h.Set("RateLimit", w.Header())
	// As many clients read them: of one window, in seconds from now.
	h.Set("X-RateLimit-Limit", strconv.FormatInt(w.Limit, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(w.Remaining(), 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(w.Reset(), 10))
}
