package api

import (
	"iter"
	"strconv"
	"strings"
	"time"

	"agentruntime/api/wire"
)

// The header Prefer (RFC 7240).

// respondsAsync reports whether the caller has sent "Prefer: respond-async" (RFC 7240): a call that
// waits for people is then answered with 202, and not as a refusal.
func respondsAsync(c *wire.Call) bool {
	for preference := range preferences(c) {
		if strings.EqualFold(strings.TrimSpace(preference), "respond-async") {
			return true
		}
	}
	return false
}

// preferences returns the preferences of all lines of the header, and of lists in one line.
func preferences(c *wire.Call) iter.Seq[string] {
	return strings.SplitSeq(strings.Join(c.Request.Header.Values("Prefer"), ","), ",")
}

// preferWait reads "Prefer: wait=N", in seconds (RFC 7240); other preferences are
// ignored, as the RFC says.
func preferWait(v *wire.Validation, c *wire.Call) *time.Duration {
	for preference := range preferences(c) {
		name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		n, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`))
		if err != nil || n < 0 {
			v.Add("header.Prefer", "format", "wait is a whole number of seconds from 0 to 60.")
			return nil
		}
		wait := time.Duration(min(n, 60)) * time.Second
		return &wait
	}
	return nil
}

// preferredWait is preferWait for calls that only look: 0 means that the call does not wait.
func preferredWait(c *wire.Call) (time.Duration, error) {
	var v wire.Validation
	wait := preferWait(&v, c)
	if err := v.Err(); err != nil || wait == nil {
		return 0, err
	}
	return *wait, nil
}
