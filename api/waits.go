package api

import (
	"net/http"
	"strings"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/base/share"
)

// Bounds of calls that wait for what they have begun, or look at. Each has a connection, a goroutine
// and its place among those who are told. Behind a proxy all callers come from one address, so no bound
// of an address stops one tenant from having all connections wait.
const (
	// waitingShare is the part of all connections that calls may have that wait, and waitingOfTenant the
	// part of one tenant: the others are for calls that do not wait, and for other tenants.
	waitingShare    = 2
	waitingOfTenant = 8
	// freeWait is how long a call waits that has no place and begins something. What is quick is answered
	// with its result all the same.
	freeWait = time.Second
	// manyConnections is how many there are where a process does not say.
	manyConnections = 4096
)

// newWaits divides the places of calls that wait among tenants. Nothing waits for a place.
func newWaits(connections int) *share.Pool {
	if connections <= 0 {
		connections = manyConnections
	}
	one := max(1, connections/waitingOfTenant)
	return share.New(share.Limits{Total: max(1, connections/waitingShare), PerOwner: one, PerPart: one, Waiting: 1, WaitingPerOwner: 1})
}

// boundWait takes a place for a call that may wait longer than freeWait. Where its tenant has none left,
// the call goes on as if it had asked for freeWait, and one that only looks, for no wait. leave gives the
// place back.
func (s *Server) boundWait(rt route, c *wire.Call) (leave func()) {
	var asked wire.Validation
	wait := preferWait(&asked, c)
	waits := wait != nil && *wait > freeWait
	if wait == nil {
		waits = rt.method == http.MethodPost && rt.body == bodyRun // these wait by default
	}
	if asked.Err() != nil || !waits {
		return func() {}
	}
	if leave, ok := s.waits.Try(c.Actor.TenantID.String(), ""); ok {
		return leave
	}
	var others []string
	for preference := range preferences(c) {
		name, _, _ := strings.Cut(strings.TrimSpace(preference), "=")
		if name != "" && !strings.EqualFold(strings.TrimSpace(name), "wait") {
			others = append(others, strings.TrimSpace(preference))
		}
	}
	short := "wait=0"
	if rt.method == http.MethodPost {
		short = "wait=1"
	}
	c.Request.Header.Set("Prefer", strings.Join(append(others, short), ", "))
	return func() {}
}
