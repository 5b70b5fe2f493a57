//go:build soak

package soak

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"agentruntime/test/rig"
)

const (
	// callers is how many call at once, and think how long each pauses at most before the
	// next call: two cores are busy, and nothing waits long.
	callers = 16
	think   = 400 * time.Millisecond
	// callLimit is above the longest wait of one call.
	callLimit = 45 * time.Second
	callPause = 200 * time.Millisecond
	// mostLeft is how many calls are held until the end.
	mostLeft = 40
)

// tenant is a customer of the service, with a client for each API.
type tenant struct {
	id            string
	runtime, user [2]*rig.Client
}

// load makes the calls and keeps the books.
type load struct {
	tenants  []tenant
	provider *provider
	// over is closed when no call is to begin, gaveUp when no caller is to wait.
	over, gaveUp chan struct{}
	calls        sync.WaitGroup

	mu   sync.Mutex
	all  []*seen
	left int
	// strange are answers to reads that should not be.
	strange   []string
	ran, read took
}

// told is what an answer says of its run.
type told struct {
	status, approval, fence, complaint string
	receipt                            int
}

// tell reads an answer. The status is "" where there is no answer, or one that says only to
// come back.
func tell(a rig.Answer) (said told) {
	var e rig.Envelope
	if a.Err != nil || json.Unmarshal(a.Body, &e) != nil {
		return told{}
	}
	switch {
	case a.Status == http.StatusInternalServerError:
		return told{complaint: fmt.Sprintf("HTTP 500: %s", a.Body)}
	case e.Error != nil && e.Error.Code == "SERVICE_UNAVAILABLE":
		return told{}
	case e.Error != nil && e.Error.Code == "OUTCOME_UNKNOWN":
		return told{status: unknown}
	case e.Error != nil && e.Error.Status == "":
		return told{complaint: fmt.Sprintf("HTTP %d: %.300s", a.Status, a.Body)}
	case e.Error != nil:
		return told{status: e.Error.Status, approval: e.Error.ApprovalID}
	}
	var data rig.RunData
	var result struct{ Receipt int }
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return told{complaint: err.Error()}
	}
	_ = json.Unmarshal(data.Result, &result) // 0 is no receipt
	return told{status: data.Status, approval: data.ApprovalID, fence: data.FenceStatus, receipt: result.Receipt}
}

// pick is one kind of call with its weight among a hundred.
type pick struct {
	weight     int
	kind, verb string
	modes      []string
	prefix     string
}

func mix() []pick {
	faults := []string{slow, limited, refused, broken, gateway, dropped, lost}
	calm := []string{fine, fine, slow, limited}
	return []pick{
		{weight: 24, kind: kindPlain, verb: verbRead, modes: append(slices.Repeat([]string{fine}, 14), faults...)},
		{weight: 20, kind: kindPlain, verb: verbKeyed, modes: append(slices.Repeat([]string{fine}, 14), faults...)},
		{weight: 24, kind: kindPlain, verb: verbWrite, modes: append(slices.Repeat([]string{fine}, 14), faults...)},
		{weight: 8, kind: kindTwin, verb: verbWrite, modes: calm},
		{weight: 3, kind: kindTwin, verb: verbKeyed, modes: calm},
		{weight: 4, kind: kindUnnamed, verb: verbWrite, modes: []string{fine, slow}},
		{weight: 4, kind: kindApproved, verb: verbWrite, modes: calm, prefix: "held-"},
		{weight: 3, kind: kindRejected, verb: verbWrite, modes: []string{fine}, prefix: "held-"},
		{weight: 2, kind: kindWithdraw, verb: verbWrite, modes: []string{fine}, prefix: "held-"},
		{weight: 1, kind: kindLeft, verb: verbWrite, modes: []string{fine}, prefix: "held-"},
		{weight: 3, kind: kindDry, verb: verbWrite, modes: calm},
		{weight: 1, kind: kindDropped, verb: verbWrite, modes: []string{fine}},
		{weight: 3, kind: kindCancel, verb: verbKeyed, modes: []string{limited}},
	}
}

func choose(rnd *rand.Rand) pick {
	list, total := mix(), 0
	for _, p := range list {
		total += p.weight
	}
	n := rnd.IntN(total)
	for _, p := range list {
		if n -= p.weight; n < 0 {
			return p
		}
	}
	return list[0]
}

// begin starts the callers; they stop beginning calls when over is closed.
func (l *load) begin(seed uint64) {
	for n := range callers {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		l.calls.Go(func() {
			for l.goesOn() {
				l.one(rnd)
				l.pause(rand.N(think))
			}
		})
	}
	for n, t := range l.tenants {
		rnd := rand.New(rand.NewPCG(seed, uint64(callers+n)))
		l.calls.Go(func() {
			for l.goesOn() {
				l.look(t, rnd)
				l.pause(rand.N(2 * think))
			}
		})
	}
}

func (l *load) goesOn() bool {
	select {
	case <-l.over:
		return false
	default:
		return true
	}
}

// one makes one call and sees it to its end.
func (l *load) one(rnd *rand.Rand) {
	p := choose(rnd)
	t := l.tenants[rnd.IntN(len(l.tenants))]
	l.mu.Lock()
	if p.kind == kindLeft {
		if l.left++; l.left > mostLeft {
			p.kind = kindApproved
		}
	}
	s := &seen{id: fmt.Sprintf("%s%s-%d.%s", p.prefix, p.kind, len(l.all), p.modes[rnd.IntN(len(p.modes))]), kind: p.kind, verb: p.verb, from: time.Now()}
	l.all = append(l.all, s)
	l.mu.Unlock()
	c := &call{load: l, tenant: t, seen: s, first: rnd.IntN(2), again: rnd.IntN(2) == 0}
	if p.kind == kindLeft {
		l.calls.Go(func() { c.conduct() })
		return
	}
	c.conduct()
}

// call is one call with the API that it goes to next.
type call struct {
	*load
	*seen

	tenant tenant
	first  int
	again  bool
}

// next alternates between the two APIs.
func (c *call) next() int {
	c.first = 1 - c.first
	return c.first
}

func (c *call) post(api int, headers ...string) told {
	body := map[string]any{"verb": c.verb, "args": map[string]string{"id": c.id}}
	if c.kind != kindUnnamed {
		body["execution_id"] = c.id
	}
	if c.kind == kindDry || c.kind == kindDropped {
		body["dryRun"] = true
	}
	began := time.Now()
	said := tell(c.tenant.runtime[api].Do(http.MethodPost, "/v1/runtime/actions/run", body, headers...))
	if said.status == executed && c.kind == kindPlain && modeOf(c.id) == fine && said.fence == executed {
		c.mu.Lock()
		c.ran = append(c.ran, time.Since(began))
		c.mu.Unlock()
	}
	return said
}

// conduct repeats the call until its end is known, and does with it what its kind says.
func (c *call) conduct() {
	defer func() { c.to = time.Now() }()
	switch c.kind {
	case kindTwin:
		var other sync.WaitGroup
		other.Go(func() { c.post(c.next()) })
		c.pause(time.Millisecond)
		defer other.Wait()
	case kindCancel:
		var other sync.WaitGroup
		api := c.next()
		other.Go(func() {
			c.pause(callPause)
			c.tenant.runtime[api].Do(http.MethodPost, "/v1/executions/"+c.id+"/cancel", nil)
		})
		defer other.Wait()
	}
	for c.waits() {
		said := c.post(c.next(), "Prefer: wait=10")
		if said.complaint != "" {
			c.complaints = append(c.complaints, said.complaint)
			return
		}
		c.accepted = c.accepted || said.status != ""
		switch {
		case said.status != "" && said.status != "running" && (said.approval == "" || said.status != pending && said.status != intercepted):
			c.status, c.receipt = said.status, said.receipt
			if c.again && c.kind != kindUnnamed {
				c.repeat()
			}
			return
		case c.kind == kindUnnamed:
			return
		case said.approval != "" && c.decide(said.approval):
			c.status = intercepted
			return
		}
		c.pause(callPause)
	}
}

// decide does what the call's kind says about an approval. It reports whether that is the
// end of the call.
func (c *call) decide(approval string) bool {
	decision := "approve"
	switch c.kind {
	case kindWithdraw:
		c.tenant.user[c.next()].Do(http.MethodPost, "/v1/executions/"+c.id+"/cancel", nil)
		return false
	case kindLeft:
		select {
		case <-c.over:
		case <-c.gaveUp:
			return false
		}
	case kindRejected, kindDropped:
		decision = "reject"
	}
	a := c.tenant.user[c.next()].Decide(approval, decision, nil)
	// What was rejected by a call whose answer was lost is no longer pending.
	return c.kind == kindDropped && (a.Status == http.StatusOK || a.Status == http.StatusConflict)
}

// repeat makes the call once more through the other API, which must answer the same.
func (c *call) repeat() {
	for c.waits() {
		said := c.post(c.next(), "Prefer: wait=10")
		late := c.status == unknown && said.status == executed // a late answer settled it
		switch {
		case said.complaint != "":
			c.complaints = append(c.complaints, "the repeat: "+said.complaint)
		case said.status == "", said.status == "running":
			c.pause(callPause)
			continue
		case late:
		case said.status != c.status, said.receipt != c.receipt, said.status == executed && said.fence != "cached":
			c.complaints = append(c.complaints, fmt.Sprintf("was %s with receipt %d, and the repeat is %s (%s) with %d", c.status, c.receipt, said.status, said.fence, said.receipt))
		}
		return
	}
}

// look reads what people and agents look at between calls.
func (l *load) look(t tenant, rnd *rand.Rand) {
	api := rnd.IntN(2)
	var a rig.Answer
	began := time.Now()
	switch rnd.IntN(6) {
	case 0:
		a = t.runtime[api].Do(http.MethodGet, "/v1/executions?limit=20", nil)
	case 1:
		a = t.user[api].Do(http.MethodGet, "/v1/approvals?status=pending&limit=20", nil)
	case 2:
		a = t.user[api].Do(http.MethodGet, "/v1/approvals/counts", nil)
	case 3:
		a = t.user[api].Do(http.MethodGet, "/v1/audit?limit=20", nil)
	case 4:
		a = t.runtime[api].Do(http.MethodGet, "/v1/runtime/actions/catalog", nil)
	default:
		a = t.user[api].Do(http.MethodGet, "/v1/executions?status=failed&limit=20", nil)
	}
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case a.Err != nil, a.Status == http.StatusServiceUnavailable:
	case a.Status == http.StatusOK:
		l.read = append(l.read, took)
	default:
		l.strange = append(l.strange, fmt.Sprintf("a read: HTTP %d: %.300s", a.Status, a.Body))
	}
}

// waits reports whether callers still wait for the ends of their calls.
func (l *load) waits() bool {
	select {
	case <-l.gaveUp:
		return false
	default:
		return true
	}
}

func (l *load) pause(d time.Duration) {
	select {
	case <-l.gaveUp:
	case <-time.After(d):
	}
}
